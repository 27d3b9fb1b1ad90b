/// What a file is for, in the broad terms in which people look for one.
package enum FileCategory: String, Hashable, Sendable, Codable, CaseIterable {
    /// A picture, also a raw one of a camera or a drawing.
    case image
    /// A film.
    case video
    /// Sound or music.
    case audio
    /// A document to read or print: a letter, a table, slides, a PDF.
    case document
    /// Several files in one, or a compressed one.
    case archive
    /// The source of a program, a script, or data in a language for programs.
    case code
    /// Plain text.
    case text
    /// A book for a reader.
    case book
    /// A typeface.
    case font
    /// A database or a table of data for programs.
    case database
    /// A program, a library or a package that installs one.
    case executable
    /// The image of a disk.
    case disk
    /// A model in three dimensions, or a drawing of an engineer.
    case model
    /// Anything else.
    case other

    /// The category that an extension stands for, `other` when it is not known.
    ///
    /// Case does not count; the extension has no dot before it. Some stand for several things; the category is that of
    /// the most common one.
    package init(extension name: some StringProtocol) {
        self = Self.byExtension[name.lowercased()] ?? .other
    }

    /// The category that the first bytes of a file show; `nil` when they show none.
    package init?(magic bytes: [UInt8]) {
        guard let signature = FileSignature(bytes) else { return nil }
        self = signature.category
    }

    private static let byExtension: [String: FileCategory] = {
        var table: [String: FileCategory] = [:]
        for (category, names) in extensions {
            for name in names.split(whereSeparator: \.isWhitespace) { table[String(name)] = category }
        }
        return table
    }()

    /// The known extensions of each category, with white space between them; none is in two.
    static let extensions: [(FileCategory, String)] = [
        (
            .image,
            """
            3fr ai ait ani apng ari arw avif avifs avs bay bmp bpg cal cals cdr cgm clip cr2 cr3 crw cur cut dcr dcs \
            dcx dds dib dng dpx drf eip emf eps epsf epsi erf exr fax fff fit fits flif fts gbr gif gih gpr hdr heic \
            heics heif heifs hif icb icns ico iff iiq j2c j2k jfif jif jng jp2 jpc jpe jpeg jpf jpg jpm jpx jxl jxr \
            k25 kdc kra lbm mac mdc mef mng mos mrw msp nef nrw ora orf pam pbm pcd pct pcx pef pfm pgf pgm phm pic \
            pict pjpeg pjpg png pnm ppm procreate psb psd psp pspimage ptx pxn qoi qtk r3d raf ras raw rgb rgba rw2 \
            rwl rwz sgi sid sr2 srf srw svg svgz sxd tga thm tif tiff wbmp wdp webp wmf wpg x3f xbm xcf xpm xwd
            """
        ),
        (
            .video,
            """
            264 265 3g2 3gp 3gp2 3gpp amv asf avc avchd avi bik braw camrec cine divx drc dv dvr-ms evo f4p f4v fli \
            flv gifv gxf h264 h265 hevc insv ismv ivf ivr lrv m1v m2p m2t m2ts m2v m4v mj2 mjp mjpeg mjpg mk3d mkv \
            mlv mod mov mp2v mp4 mp4v mpe mpeg mpg mpg2 mpv mqv mts mxf nsv nut nuv obu ogm ogv qt rm rmvb roq rv \
            smk swf tod tp trp vc1 viv vivo vob vro webm wm wmv wtv xesc xvid y4m yuv
            """
        ),
        (
            .audio,
            """
            3ga 8svx aa aac aax aaxc ac3 adt adts adx aif aifc aiff alac alp als amr aob ape at3 au aup aup3 awb \
            band caf cda dff dsd dsf dts dtshd dvf eac3 flac flp gsm it kar logicx m2a m3u m3u8 m4a m4b m4p m4r mid \
            midi mka mlp mmf mo3 mp1 mp2 mp3 mpa mpc mpga mpp msv mtm nsf oga ogg opus pls ptf ra ram rf64 rmi s3m \
            sd2 ses shn sln snd spx tak tta umx voc vox vqf w64 wav wave weba wma wpl wv wvc xm xspf
            """
        ),
        (
            .document,
            """
            602 abw aww cwk doc docm docx dot dotm dotx dps dvi et fdf fodg fodp fods fodt fopd gdoc gsheet gslides \
            hwp hwpx indd indt jtd key keynote lwp mcw mdi mht mhtml mmap mpt msg numbers odc odf odg odi odm odp \
            ods odt one onetoc2 otc otg oth oti otp ots ott oxps p65 pages pdf pdfa pmd pot potm potx ppam pps ppsm \
            ppsx ppt pptm pptx prn ps pub pwi qpw qxd qxp rtf rtfd sam sdc sdd sdp sdw sla slk stc std sti stw sxc \
            sxg sxi sxm sxw uof uop uos uot vdx vsd vsdm vsdx vss vssx vstx wb1 wb2 wk1 wk3 wk4 wks wpd wps wpt wri \
            xla xlam xls xlsb xlsm xlsx xlt xltm xltx xlw xmind xps zabw
            """
        ),
        (
            .archive,
            """
            7z ace afa alz apkg ar arc arj ark b1 ba bh br bz bz2 bz3 bzip2 c00 cab cfs cpio cpt dar ear egg gca \
            genozip gz gzip ha ice kgb lbr lha lrz lz lz4 lzh lzma lzo lzx mar mzp nar nz pak paq6 paq7 paq8 par \
            par2 pax pea pet phar pim pit pk3 pk4 qda r00 r01 rar rev rk rz s7z sar sbx sda sea sen sfark shar shk \
            sit sitx spl sqx sz tar taz tbz tbz2 tgz tlz tpz txz tz tzo tzst uc2 uca uha vpk war warc wim xar xp3 xz \
            z z01 zip zipx zoo zpaq zst zstd zz
            """
        ),
        (
            .code,
            """
            a51 abap action ada adb adp ads agc agda ahk aj applescript asa asax ascx ash ashx asm asmx asp aspx \
            astro au3 awk axd bas bash bat bats bazel bb bf bicep bones boo brs bsv builder bzl c c++ cbl cc cfc cfm \
            cgi cjs cl clj cljc cljs cljx cls cmake cmd cob cobol coffee cp cpp cppm cpy cr cs csh csproj css csx cu \
            cuh cxx cy cypher d dart dats def dfm di dpr dtd dtx duby dyalog e ebuild ec ecl eclass ecr edn ejs el \
            elm em emacs erb erl es6 esproj ex exs f f03 f08 f77 f90 f95 fan fish flex for forth fpp frag frt fs fsh \
            fsi fsproj fst fsx fth ftl fy gd gdshader geojson geom gleam glf glsl gml gn gnumakefile gnuplot go \
            gotmpl gp gql gradle graphql graphqls groovy gsp gv gyp gypi h h++ hack haml handlebars har hbs hcl hh \
            hjson hlsl hpp hql hrl hs hsc htc htm html hx hxsl hxx hy icl idc idl idr iml inc inl ino ipp ipynb iss \
            ixx j janet jav java jbuilder jinja jinja2 jl jq js jsb jscad jsm json json5 jsonc jsonl jsonld jsonnet \
            jsp jspx jsx kdl kt ktm kts l lagda lean less lex lfe lgt lhs libsonnet lidr liquid lisp litcoffee ll \
            logtalk ls lsp lua m4 mak make mako mdx metal mjs mk mkfile ml ml4 mli mll mly mm moon mustache mxml \
            nasm nb nc ndjson nim nimble ninja nix njk nqp odin opal opencl p6 pas pasm pb pbt pck pde peg php php3 \
            php4 php5 phps phtml pig pike pir pkb pks pl pl6 plist plsql plx pm pm6 pmod pod podspec pony postcss pp \
            prisma pro proj prolog properties proto ps1 psd1 psgi psm1 pug purs pxd pxi py py3 pyi pyp pyt pyw pyx \
            pyz qbs qml r rake raml rb rbuild rbw rbx rdf reason rego rei res rex rexx rhtml rkt rktd rktl rmd robot \
            rs rsx ru ruby sas sass sbt sc scad scala scd sch schema scm scpt scptd scss sed sh shader sjs slim sls \
            smali sml snakefile sol sparql spec sql ss ssjs st sublime-project sv svelte svh swift swiftinterface t \
            targets tcl tcsh templ tf tfvars thrift thy tla tmpl toml tpl ts tsx twig typ ui v vala vapi vb vbe \
            vbproj vbs vcxproj vert vh vhdl vim vm vsh vue vy wat webidl webmanifest wgsl wl workbook wsdl wsf xaml \
            xhtml xib xml xproj xq xql xqm xquery xqy xs xsd xsjs xsl xslt xtend y yaml yang yml yy zep zig zimpl \
            zsh
            """
        ),
        (
            .text,
            """
            1st adoc ans asc ascii asciidoc ass bib bst cfg cnf conf config csl ctl desktop diff diz eml emlx env \
            err etx faq gitignore gmi gpx ics inf info ini install kml latex license list log ltx ly man mbox md \
            mdown mdtext mdtxt meta mime mkd mkdn nfo note opml org out patch po readme reg rss rst rtx sbv scc \
            service smi srt ssa strings sub sup svc tab tex texi texinfo text textile timer tm todo ttl txt url utf8 \
            vcard vcf vcs vtt webloc wiki
            """
        ),
        (
            .book,
            """
            acsm azk azw azw1 azw3 azw4 azw8 cb7 cba cbc cbr cbt cbw cbz ceb chm djv djvu ebk epub epub3 fb2 fb3 fbz \
            ibook ibooks inkpad kepub kf8 kfx koob lit lrf lrs lrx mobi mobi8 opf pml prc snb tcr tr2 tr3
            """
        ),
        (
            .font,
            """
            abf acfm afm amfm bdf designspace dfont eot fnt fon fot glyphs glyphspackage gsf otf pcf pfa pfb pfr pk \
            psf sfd snf suit t65 tfm ttc tte ttf ufo vfb woff woff2
            """
        ),
        (
            .database,
            """
            4dd abs accdb accdc accde accdr accdt arrow avro btr ckp csv daf db db-journal db-shm db-wal db2 db3 dbc \
            dbf dbs dbt dbx dcb dct ddl edb fdb feather fmp fmp12 fp7 frm gdb gpkg h5 hdf hdf4 hdf5 ib ibd idb kdb \
            kdbx ldb ldf mat mda mdb mde mdf mdn mdw mwb myd myi ndf npy npz nv nyf odb orc parquet pdb pickle pkl \
            por psv rdata rds realm s3db sas7bdat sav sdb sdf sqlite sqlite-shm sqlite-wal sqlite3 sqlitedb store \
            tsv usr wdb wmdb xdb zsav
            """
        ),
        (
            .executable,
            """
            a aab apk apks app appimage appinstaller appref-ms appx appxbundle bin bundle class com cpl crx deb dex \
            dll drv dylib elf exe flatpak flatpakref framework gadget gem ipa jar jnlp kext ko lib mpkg msi msix \
            msixbundle msm msu nexe nupkg o obj ocx pif pkg prx pyc pyd pyo rlib rpm run scr snap so sys tsp udeb \
            vsix vxd wasm whl xap xbe xex xpi
            """
        ),
        (
            .disk,
            """
            adf adz aff b5t b6t bwi bwt c2d ccd cdi ciso cso cue d64 daa dax dim dmg dmgpart dms dsk e01 ecm gdi hc \
            hdd hfs hfv ima img imz iso isz mds nib nrg ova ovf pdi pvm qcow qcow2 qed sparsebundle sparseimage swm \
            tc toast udf uif utm vcd vdi vfd vhd vhdx vmdk vmem vmsn vmss wbfs xva
            """
        ),
        (
            .model,
            """
            3dm 3ds 3dxml 3mf abc ac ac3d amf asab b3d blend blend1 bvh c4d catpart catproduct collada dae dgn dwf \
            dwfx dwg dxb dxf f3d f3z fbx fcstd g gcode glb gltf iam idw ifc ifczip iges igs ipt jt kicad_pcb \
            kicad_pro kicad_sch lay lwo lws lxo ma max mb md2 md3 md5mesh mqo mtl off ply pmx prt pz3 rfa rvt sab \
            sat scn skb skp sldasm slddrw sldprt splat spline step stl stp stpz usd usda usdc usdz vrm vrml wings \
            wrl wrz x x3d x3db x3dv x_b x_t xgl xmt_txt zpr ztl
            """
        ),
    ]
}

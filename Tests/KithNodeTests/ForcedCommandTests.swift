import Testing

@testable import KithNode

@Suite struct ForcedCommandTests {
    static let cases: [(line: String, files: [String])] = [
        ("/srv/run.sh", ["/srv/run.sh"]),
        ("bash '/srv/run.sh' now", ["/usr/bin/bash", "/opt/bin/bash", "/srv/run.sh"]),
        ("~/bin/run; exec $HOME/other", ["/home/ana/bin/run", "/home/ana/other"]),
        ("cd /srv && ./run", ["/srv", "/home/ana/./run"]),
        ("LD_PRELOAD=/srv/x.so true", ["/srv/x.so"]),
        ("borg serve --append-only", ["/opt/bin/borg"]),
        ("sh run.sh", ["/home/ana/run.sh"]),
        ("nowhere", []),
    ]

    @Test(arguments: cases) func `the files that a line names are known`(line: String, files: [String]) {
        let there = ["/usr/bin/bash", "/opt/bin/borg", "/home/ana/run.sh"]
        let found = ForcedCommand(line).files(home: "/home/ana", path: "/opt/bin:relative:/usr/bin") {
            there.contains($0)
        }
        #expect(Set(found) == Set(files))
    }
}

/// Derivations computed by two other implementations, OpenSSL's and one in plain Python.
struct KeyVector: Sendable {
    let root: String
    let rootID: String
    let derived: [Derived]

    struct Derived: Sendable {
        let info: String
        let scalar: String
        let id: String
    }

    static let all = [
        KeyVector(
            root: "0000000000000000000000000000000000000000000000000000000000000001",
            rootID: "d65ukous8ihk8phvu519lqgggg",
            derived: [
                Derived(
                    info: "runar-v1:user-root:agreement",
                    scalar: "57108bf0d83d1e63f342add63d3559cb357a56ca1385f719fc9dc67321c593c9",
                    id: "am8tk21gt73a7oc7dum6m30eek"),
                Derived(
                    info: "runar-v1:profile:agreement:personal",
                    scalar: "a69115db4bd19103b88bd731e15143f94168a2b3099f9b4a1ddb51ef11b57635",
                    id: "p6vv05941itmjohd6pjbeq4ims"),
                Derived(
                    info: "runar-v1:profile:agreement:work",
                    scalar: "146a0b7ec736602fdb0382ca5d538e72f616aad28d68e7b855d78cd809a6a02a",
                    id: "jc38nv2c2puaigto48h9ucrak4"),
                Derived(
                    info: "runar-v1:profile:agreement:",
                    scalar: "8e6d7e9aa13b83849f9ac37f977501a76d501221fa055ef13ee76a88f70d18b3",
                    id: "a399svij3p3b69h0b7ttde1tok"),
                Derived(
                    info: "runar-v1:profile:agreement:Büro",
                    scalar: "cbe07e376eb1f1c7fd64c4dac312e14d337adcfcfbd2c36c2a5a4295f9968337",
                    id: "d77fl8l00tlnrdsjcimpdi1an8"),
                Derived(
                    info: "runar-v1:network:agreement:home",
                    scalar: "fbf17af0edd4efb267bb5376070049cde8e3c0ee20cfe022ca882f01dc8b3371",
                    id: "lkd0609mi47nq0nhch3ot2d7p0"),
                Derived(
                    info: "runar-v1:node-identity:agreement",
                    scalar: "aace90608ce3bf474978a98d27c0e2c2f28c644bdc016b920dcf02f72c50240b",
                    id: "8sop3tn8rinoabuei85rjqu55o"),
            ]),
        KeyVector(
            root: "0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20",
            rootID: "89koh51hsc9hipnsltl4asa1ig",
            derived: [
                Derived(
                    info: "runar-v1:user-root:agreement",
                    scalar: "d02d3f057ab1635837d809cf2e4d23432a31bc15a46b03e0a800d904b68debe0",
                    id: "k8ttakm6212tv2ns184rjro5o4"),
                Derived(
                    info: "runar-v1:profile:agreement:personal",
                    scalar: "ddbbe8b864be897caaf723cd2f73d6c31b1f4d369d6cc5325451924659d3dfca",
                    id: "p8qivpdorucv427qp7bbg4on60"),
                Derived(
                    info: "runar-v1:profile:agreement:work",
                    scalar: "0f45a51138e21577ec22f3683335a774745398ed2bf93beed2503e33cbbdc756",
                    id: "gfj70naklbrd5qpq3o127ebdus"),
                Derived(
                    info: "runar-v1:profile:agreement:",
                    scalar: "5b7b9d3b5a406cbf9582fe20b5f076e436fa76a1a0389f0b866bf3ddfdbe89f4",
                    id: "o1dki811e4v3r118qo6b9i7ro8"),
                Derived(
                    info: "runar-v1:profile:agreement:Büro",
                    scalar: "19b8959348c4301e4a8a48a3bab994d7c019026a23a6d7a25ffdd87bb9e933e7",
                    id: "75fc9gmc8tc2ddqtkng2i364es"),
                Derived(
                    info: "runar-v1:network:agreement:home",
                    scalar: "8f0d37921a18da35b649f49d815669e59c40aca5321b71cbe6be150dea51660b",
                    id: "hg09ou89iq9lrh7n4lhrpg0ssg"),
                Derived(
                    info: "runar-v1:node-identity:agreement",
                    scalar: "7f5214b8af58dcfe24c48b8c51a52b6f13926f0fdd8889f4ca652321ed41a601",
                    id: "53vpfi9jit0q10k1pgolskqvtk"),
            ]),
        KeyVector(
            root: "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632550",
            rootID: "ahppouufhbrurqn622j1h4i2ek",
            derived: [
                Derived(
                    info: "runar-v1:user-root:agreement",
                    scalar: "3d9a44c06e8987f37c646e2e5f2ec727171c3331d676892f0df1ba90dbc238b9",
                    id: "2t2dfulcbjpufi0vm46rjsekak"),
                Derived(
                    info: "runar-v1:profile:agreement:personal",
                    scalar: "6eb0ed71f16a82dec3423f550f56845cfa7696c662dfb768f833249307f3204a",
                    id: "i9n3filunsl624ro7umpqr1iq4"),
                Derived(
                    info: "runar-v1:profile:agreement:work",
                    scalar: "6933032b34614231b768e6de534e8257493f10b382b1bcf33c592c36d88bdd3f",
                    id: "fodms7h8fq37596qr5543p7ibo"),
                Derived(
                    info: "runar-v1:profile:agreement:",
                    scalar: "5611a29f8f61adbc0720ad3943bfcad22e3a95d61c9554687ef59af6c2268614",
                    id: "2q18uovqv8l2l4ojpo7gs9c2j0"),
                Derived(
                    info: "runar-v1:profile:agreement:Büro",
                    scalar: "1b87f2a2d758c576bcaab87ba5afffdab00e8cad926825974c801bd239c5b85e",
                    id: "jj8mjm1457f94p7l5g3oinr668"),
                Derived(
                    info: "runar-v1:network:agreement:home",
                    scalar: "15201f8b0dfb635dfed6ae6b28a969609f90704cde1dc605553e4b2829aa45cd",
                    id: "vj29311f88hrp0e364efnc1gio"),
                Derived(
                    info: "runar-v1:node-identity:agreement",
                    scalar: "739a06fef1103f493534ac9461e670287e6335cd9413ad9321dfd6f3768f6c17",
                    id: "8tiqqqqrldve0fu8ig541st1mg"),
            ]),
    ]
}

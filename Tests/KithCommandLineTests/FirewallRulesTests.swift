import KithCommandLine
import Testing

@Suite struct FirewallRulesTests {
    /// In the form that ufw writes, made by hand for: allow 4433/udp; allow 22/tcp; allow 7000:7010/udp; allow from 10.0.0.0/8 to any port
    /// 9000 proto udp; deny 5000/udp.
    private static let rules = """
        ### tuple ### allow udp 4433 0.0.0.0/0 any 0.0.0.0/0 in
        -A ufw-user-input -p udp --dport 4433 -j ACCEPT
        ### tuple ### allow tcp 22 0.0.0.0/0 any 0.0.0.0/0 in
        -A ufw-user-input -p tcp --dport 22 -j ACCEPT
        ### tuple ### allow udp 7000:7010 0.0.0.0/0 any 0.0.0.0/0 in
        -A ufw-user-input -p udp -m multiport --dports 7000:7010 -j ACCEPT
        ### tuple ### allow udp 9000 0.0.0.0/0 any 10.0.0.0/8 in
        -A ufw-user-input -p udp --dport 9000 -s 10.0.0.0/8 -j ACCEPT
        ### tuple ### deny udp 5000 0.0.0.0/0 any 0.0.0.0/0 in
        -A ufw-user-input -p udp --dport 5000 -j DROP
        """

    @Test(arguments: [
        (4433, true), (7000, true), (7005, true), (7010, true), (7011, false), (22, false), (9000, false),
        (5000, false), (443, false),
    ])
    func `a port is let in where a rule says so for everybody`(port: UInt16, isLetIn: Bool) {
        #expect(FirewallRules.ufw(Self.rules, letsIn: port) == isLetIn)
    }
}

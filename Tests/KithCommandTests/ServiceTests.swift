import Foundation
import KithTesting
import Testing

/// `kith service` with systemd's own user manager, in a mount namespace and a control group of its own; needs root.
@Suite struct ServiceTests {
    @Test func `systemd starts a device, starts it again when it is killed, and lets it go`() async throws {
        let files = FileManager.default
        guard geteuid() == 0, files.isExecutableFile(atPath: "/lib/systemd/systemd"),
            let group = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"].first(where: {
                files.fileExists(atPath: $0 + "/cgroup.procs")
            })
        else {
            print("skipped: needs root, systemd and control groups of version 2")
            return
        }
        let laptop = try Machine("laptop")
        // The manager believes that systemd has booted the machine only where this folder is.
        let script = """
            set -eu
            [ "$GROUP" = /sys/fs/cgroup ] || mount --bind "$GROUP" /sys/fs/cgroup
            mkdir -p "/sys/fs/cgroup/$NAME/it" && echo $$ > "/sys/fs/cgroup/$NAME/it/cgroup.procs"
            mount -t tmpfs none /run && mkdir -p /run/systemd/system "$XDG_RUNTIME_DIR" && chmod 700 "$XDG_RUNTIME_DIR"
            /lib/systemd/systemd --user &
            manager=$!
            trap 'systemctl --user exit; wait $manager' EXIT
            until systemctl --user is-system-running >&2; do sleep 0.1; done
            "$KITH" service install
            waits() { for _ in $(seq 100); do "$KITH" status | grep -q "is $1" && return; sleep 0.1; done; return 1; }
            waits up
            "$KITH" service status | head -1
            systemctl --user is-enabled kith
            kill -9 "$(systemctl --user show -p MainPID --value kith)"
            until [ "$(systemctl --user show -p NRestarts --value kith)" = 1 ]; do sleep 0.1; done
            waits up
            "$KITH" service uninstall
            waits down
            "$KITH" service status || true
            """
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/bin/bash")
        let wrapper = """
            unshare --mount --propagation private timeout 60 bash -c "$SCRIPT" || status=$?
            find "$GROUP/$NAME" -depth -type d -exec rmdir {} \\;
            exit ${status:-0}
            """
        process.arguments = ["-c", wrapper]
        var environment = ProcessInfo.processInfo.environment
        environment["HOME"] = laptop.path("home")
        environment["XDG_RUNTIME_DIR"] = "/run/kith-test"
        environment["KITH"] = Machine.program.path
        environment["SCRIPT"] = script
        environment["GROUP"] = group
        environment["NAME"] = laptop.folder.lastPathComponent
        for name in ["XDG_CONFIG_HOME", "XDG_DATA_HOME", "KITH_DATA", "DBUS_SESSION_BUS_ADDRESS"] {
            environment[name] = nil
        }
        process.environment = environment
        let output = Pipe()
        process.standardOutput = output
        process.standardError = output
        try process.run()
        let text = await onThread {
            let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
            process.waitUntilExit()
            return text
        }
        #expect(process.terminationStatus == 0, "\(text)")
        for line in ["kith.service is running", "\nenabled\n", "is not installed"] {
            #expect(text.contains(line), "\(line): \(text)")
        }
        await laptop.remove()
    }

    @Test func `root installs, sees and removes a service that runs as the user it names`() async throws {
        guard geteuid() == 0, getpwnam("nobody") != nil,
            FileManager.default.fileExists(atPath: "/etc/systemd/system")
        else {
            print("skipped: needs root, a user nobody and systemd's folder")
            return
        }
        // Its folder is this script's own: nothing of the machine's is touched.
        let script = """
            set -eu
            mount -t tmpfs none /etc/systemd/system
            "$KITH" service install --user nobody --name test --no-start
            cat /etc/systemd/system/kith-test.service
            "$KITH" service status --user nobody --name test && exit 1 || echo "status $?"
            "$KITH" service uninstall --user nobody --name test
            "$KITH" service status --user nobody --name test && exit 1 || echo "status $?"
            "$KITH" service install --user no-such-user --no-start && exit 1 || echo "status $?"
            SUDO_USER=nobody "$KITH" service install --no-start && exit 1 || echo "status $?"
            "$KITH" service install --user nobody --print > /dev/null
            cp "$KITH" "$FOLDER/kith" && chmod 755 "$FOLDER" "$FOLDER/kith"
            setpriv --reuid nobody --clear-groups "$FOLDER/kith" service install --user nobody --no-start && exit 1 ||
                echo "status $?"
            ls /etc/systemd/system | wc -l
            """
        let machine = try Machine("laptop")
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/unshare")
        process.arguments = ["--mount", "--propagation", "private", "bash", "-c", script]
        var environment = ProcessInfo.processInfo.environment
        environment["KITH"] = Machine.program.path
        environment["HOME"] = machine.path("home")
        environment["FOLDER"] = machine.folder.path
        for name in ["SUDO_USER", "KITH_DATA", "XDG_DATA_HOME"] { environment[name] = nil }
        process.environment = environment
        let output = Pipe()
        process.standardOutput = output
        process.standardError = output
        try process.run()
        let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        await machine.remove()
        #expect(process.terminationStatus == 0, "\(text)")
        #expect(text.contains("\nUser=nobody\n") && text.contains("WantedBy=multi-user.target"), "\(text)")
        let home = String(cString: getpwnam("nobody").pointee.pw_dir)
        #expect(text.contains("--data \(home)/.local/share/kith\n"), "\(text)")
        let statuses = text.split(separator: "\n").filter { $0.hasPrefix("status ") }.map(String.init)
        #expect(statuses == ["status 1", "status 3", "status 3", "status 64", "status 5"], "\(text)")
        #expect(text.hasSuffix("\n0\n"), "\(text)")
    }
}

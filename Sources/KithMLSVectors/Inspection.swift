package import KithMLS

/// A message laid open as far as anybody can see without keys: a tree of named values for printing.
package indirect enum Inspection: Encodable, Sendable {
    case text(String)
    case number(UInt64)
    case flag(Bool)
    /// Bytes, shown in hexadecimal.
    case bytes([UInt8])
    case list([Inspection])
    case object([(name: String, value: Inspection)])

    private struct Name: CodingKey {
        let stringValue: String
        var intValue: Int? { nil }
        init(stringValue: String) { self.stringValue = stringValue }
        init?(intValue: Int) { nil }
    }

    package func encode(to encoder: any Encoder) throws {
        switch self {
        case .object(let members):
            var container = encoder.container(keyedBy: Name.self)
            for (name, value) in members { try container.encode(value, forKey: Name(stringValue: name)) }
        case .text(let text): try text.encode(to: encoder)
        case .number(let number): try number.encode(to: encoder)
        case .flag(let flag): try flag.encode(to: encoder)
        case .bytes(let bytes): try Hex(bytes).encode(to: encoder)
        case .list(let elements): try elements.encode(to: encoder)
        }
    }
}

// Messages.
extension Inspection {
    /// Lays a message open.
    package init(_ message: MLSMessage) {
        self =
            switch message {
            case .publicMessage(let message): Self.object([("public_message", Self(message))])
            case .privateMessage(let message): Self.object([("private_message", Self(message))])
            case .welcome(let welcome): Self.object([("welcome", Self(welcome))])
            case .groupInfo(let info): Self.object([("group_info", Self(info))])
            case .keyPackage(let package): Self.object([("key_package", Self(package))])
            }
    }

    private init(_ message: PublicMessage) {
        let content = message.authenticated.content
        var members: [(name: String, value: Inspection)] = [
            ("group_id", .bytes(content.groupID)), ("epoch", .number(content.epoch)),
            ("sender", Self(content.sender)), ("authenticated_data", .bytes(content.authenticatedData)),
        ]
        switch content.content {
        case .application(let data): members.append(("application_data", .bytes(data)))
        case .proposal(let proposal): members.append(("proposal", Self(proposal)))
        case .commit(let commit): members.append(("commit", Self(commit)))
        }
        members.append(("signature", .bytes(message.authenticated.signature)))
        if let tag = message.authenticated.confirmationTag { members.append(("confirmation_tag", .bytes(tag))) }
        if let tag = message.membershipTag { members.append(("membership_tag", .bytes(tag))) }
        self = .object(members)
    }

    private init(_ message: PrivateMessage) {
        self = .object([
            ("group_id", .bytes(message.groupID)), ("epoch", .number(message.epoch)),
            ("content_type", .text("\(message.contentType)")),
            ("authenticated_data", .bytes(message.authenticatedData)),
            ("encrypted_sender_data_bytes", .number(UInt64(message.encryptedSenderData.count))),
            ("ciphertext_bytes", .number(UInt64(message.ciphertext.count))),
        ])
    }

    private init(_ welcome: Welcome) {
        self = .object([
            ("cipher_suite", .number(UInt64(welcome.cipherSuite.rawValue))),
            ("new_members", .list(welcome.secrets.map { .bytes($0.newMember) })),
            ("encrypted_group_info_bytes", .number(UInt64(welcome.encryptedGroupInfo.count))),
        ])
    }

    private init(_ info: GroupInfo) {
        let context = info.groupContext
        self = .object([
            (
                "group_context",
                .object([
                    ("version", .number(UInt64(context.version.rawValue))),
                    ("cipher_suite", .number(UInt64(context.cipherSuite.rawValue))),
                    ("group_id", .bytes(context.groupID)), ("epoch", .number(context.epoch)),
                    ("tree_hash", .bytes(context.treeHash)),
                    ("confirmed_transcript_hash", .bytes(context.confirmedTranscriptHash)),
                    ("extensions", Self(context.extensions)),
                ])
            ),
            ("extensions", Self(info.extensions)), ("confirmation_tag", .bytes(info.confirmationTag)),
            ("signer", .number(UInt64(info.signer))), ("signature", .bytes(info.signature)),
        ])
    }
}

// Parts of messages.
extension Inspection {
    private init(_ package: KeyPackage) {
        self = .object([
            ("version", .number(UInt64(package.version.rawValue))),
            ("cipher_suite", .number(UInt64(package.cipherSuite.rawValue))), ("init_key", .bytes(package.initKey)),
            ("leaf_node", Self(package.leafNode)), ("extensions", Self(package.extensions)),
            ("signature", .bytes(package.signature)),
        ])
    }

    private init(_ leaf: LeafNode) {
        var members: [(name: String, value: Inspection)] = [
            ("encryption_key", .bytes(leaf.encryptionKey)), ("signature_key", .bytes(leaf.signatureKey)),
            ("credential", Self(leaf.credential)),
            (
                "capabilities",
                .object([
                    ("versions", .numbers(leaf.capabilities.versions.map(\.rawValue))),
                    ("cipher_suites", .numbers(leaf.capabilities.cipherSuites.map(\.rawValue))),
                    ("extensions", .numbers(leaf.capabilities.extensions.map(\.rawValue))),
                    ("proposals", .numbers(leaf.capabilities.proposals.map(\.rawValue))),
                    ("credentials", .numbers(leaf.capabilities.credentials.map(\.rawValue))),
                ])
            ),
        ]
        switch leaf.source {
        case .keyPackage(let lifetime):
            members.append(("leaf_node_source", .text("key_package")))
            members.append(("not_before", .number(lifetime.notBefore)))
            members.append(("not_after", .number(lifetime.notAfter)))
        case .update: members.append(("leaf_node_source", .text("update")))
        case .commit(let hash):
            members.append(("leaf_node_source", .text("commit")))
            members.append(("parent_hash", .bytes(hash)))
        }
        members.append(("extensions", Self(leaf.extensions)))
        members.append(("signature", .bytes(leaf.signature)))
        self = .object(members)
    }

    private static func numbers(_ numbers: [UInt16]) -> Inspection { .list(numbers.map { .number(UInt64($0)) }) }

    private init(_ credential: Credential) {
        self =
            switch credential {
            case .basic(let identity):
                String(validating: identity, as: UTF8.self).map { .object([("basic", .text($0))]) }
                    ?? .object([("basic", .bytes(identity))])
            case .x509(let certificates): .object([("x509", .list(certificates.map { .bytes($0) }))])
            case .other(let type, let content):
                .object([("type", .number(UInt64(type.rawValue))), ("content", .bytes(content))])
            }
    }

    private init(_ sender: Sender) {
        self =
            switch sender {
            case .member(let leaf): .object([("member", .number(UInt64(leaf)))])
            case .external(let index): .object([("external", .number(UInt64(index)))])
            case .newMemberProposal: .text("new_member_proposal")
            case .newMemberCommit: .text("new_member_commit")
            }
    }

    private init(_ commit: Commit) {
        let proposals = commit.proposals.map { item -> Inspection in
            switch item {
            case .proposal(let proposal): Self(proposal)
            case .reference(let reference): .object([("reference", .bytes(reference))])
            }
        }
        var members: [(name: String, value: Inspection)] = [("proposals", .list(proposals))]
        if let path = commit.path {
            let nodes = path.nodes.map { node -> Inspection in
                .object([
                    ("encryption_key", .bytes(node.encryptionKey)),
                    ("encrypted_path_secrets", .number(UInt64(node.encryptedPathSecret.count))),
                ])
            }
            members.append(("path", .object([("leaf_node", Self(path.leafNode)), ("nodes", .list(nodes))])))
        }
        self = .object(members)
    }

    private init(_ proposal: Proposal) {
        self =
            switch proposal {
            case .add(let package): .object([("add", Self(package))])
            case .update(let leaf): .object([("update", Self(leaf))])
            case .remove(let leaf): .object([("remove", .number(UInt64(leaf)))])
            case .psk(let id): .object([("psk", Self(id))])
            case .reInit(let reInit):
                .object([
                    (
                        "reinit",
                        .object([
                            ("group_id", .bytes(reInit.groupID)),
                            ("version", .number(UInt64(reInit.version.rawValue))),
                            ("cipher_suite", .number(UInt64(reInit.cipherSuite.rawValue))),
                            ("extensions", Self(reInit.extensions)),
                        ])
                    )
                ])
            case .externalInit(let output): .object([("external_init", .bytes(output))])
            case .groupContextExtensions(let extensions):
                .object([("group_context_extensions", Self(extensions))])
            case .custom(let type, let content):
                .object([("type", .number(UInt64(type.rawValue))), ("content", .bytes(content))])
            }
    }

    private init(_ id: PreSharedKeyID) {
        self =
            switch id.key {
            case .external(let name): .object([("external", .bytes(name)), ("nonce", .bytes(id.nonce))])
            case .resumption(let usage, let groupID, let epoch):
                .object([
                    ("resumption", .text("\(usage)")), ("group_id", .bytes(groupID)), ("epoch", .number(epoch)),
                    ("nonce", .bytes(id.nonce)),
                ])
            }
    }

    private init(_ extensions: [Extension]) {
        self = .list(
            extensions.map { item in
                // A tree is as large as the group: its size says enough.
                item.type == .ratchetTree
                    ? .object([("type", .text("ratchet_tree")), ("bytes", .number(UInt64(item.data.count)))])
                    : .object([("type", .number(UInt64(item.type.rawValue))), ("data", .bytes(item.data))])
            })
    }
}

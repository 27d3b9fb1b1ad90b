public import KithMLS

extension GroupClient {
    /// Makes and publishes key packages until there are as many as wanted, with one of last resort; gives how many.
    ///
    /// The private halves are in storage before anybody can have the packages. Those whose lifetime is half over are made
    /// up for, as others will soon not take them; those whose lifetime is over for a week are forgotten: a Welcome may be
    /// under way for a while.
    @discardableResult
    public func replenishKeyPackages() async throws(GroupError) -> Int {
        let (fresh, hasFreshLastResort) = try forgetExpired()
        let name = name
        let (published, hasLastResort) = try await reaching { () throws(DeliveryError) in
            try await delivery.keyPackageCount(of: name)
        }
        let count = min(published, fresh)
        var missing = max(0, options.keyPackages - count)
        // Little by little would be a request a message.
        if count * 2 > options.keyPackages { missing = 0 }
        let wanted =
            [Bool](repeating: false, count: missing) + (hasLastResort && hasFreshLastResort ? [] : [true])
        guard !wanted.isEmpty else { return 0 }
        let (suite, profile, key, lifetime) = (options.suite, profile, signatureKey, lifetime())
        let made = await concurrently(wanted, width: options.width) { isLastResort -> Result<Offer, MLSError> in
            do throws(MLSError) {
                let bundle = try KeyPackageBundle(
                    suite, profile: profile, signatureKey: key, lifetime: lifetime,
                    extensions: isLastResort ? [Extension(type: .lastResort, data: [])] : [])
                return .success(Offer(suite, bundle, isLastResort: isLastResort))
            } catch { return .failure(error) }
        }
        var offers: [Offer] = []
        do throws(MLSError) { for result in made { offers.append(try result.get()) } } catch { throw .refused(error) }
        try storing { () throws(GroupStorageError) in try storage.put(offers.map(\.item)) }
        let messages = offers.map(\.message)
        try await reaching { () throws(DeliveryError) in try await delivery.publish(keyPackages: messages, for: name) }
        return offers.count
    }

    /// A key package to be stored and to be published.
    private struct Offer: Sendable {
        let item: StorageItem
        let message: [UInt8]

        init(_ suite: any CipherSuite, _ bundle: KeyPackageBundle, isLastResort: Bool) {
            item = StorageItem(
                bundle, reference: bundle.keyPackage.reference(suite), isLastResort: isLastResort)
            message = MLSMessage.keyPackage(bundle.keyPackage).bytes
        }
    }

    /// Forgets what is long over; gives what is in the first half of its lifetime.
    private func forgetExpired() throws(GroupError) -> (count: Int, hasLastResort: Bool) {
        let now = options.now()
        return try storing { () throws(GroupStorageError) in
            var expired: [StorageItem.Key] = []
            var (count, hasLastResort) = (0, false)
            for kind in [StorageItem.Kind.keyPackage, .lastResort] {
                for item in try storage.items(kind) {
                    let source = try item.keyPackage(options.configuration.suites).keyPackage.leafNode.source
                    guard case .keyPackage(let lifetime) = source else { continue }
                    if lifetime.notAfter < now - min(now, 7 * 86_400) {
                        expired.append(item.key)
                    } else if lifetime.notAfter > now, lifetime.notAfter - now > options.keyPackageLifetime / 2 {
                        if kind == .lastResort { hasLastResort = true } else { count += 1 }
                    }
                }
            }
            let lastResort = expired.filter { $0.kind == .lastResort }.map(\.name)
            expired += try UsedWelcome.notes(of: lastResort, in: storage)
            if !expired.isEmpty { try storage.put([], removing: expired) }
            return (count, hasLastResort)
        }
    }

    /// One checked key package of each of some clients, from the delivery service.
    func keyPackages(of clients: [ClientID]) async throws(GroupError) -> [KeyPackage] {
        let results = await concurrently(clients, width: options.width) { client -> Result<KeyPackage, GroupError> in
            do throws(GroupError) { return .success(try await self.keyPackage(of: client)) } catch {
                return .failure(error)
            }
        }
        var packages: [KeyPackage] = []
        for result in results { packages.append(try result.get()) }
        return packages
    }

    /// The first good one that the delivery service has; it may still hand out some whose time is over.
    private func keyPackage(of client: ClientID) async throws(GroupError) -> KeyPackage {
        var last: [UInt8]?
        for _ in 0..<256 {
            guard
                let bytes = try await reaching({ () throws(DeliveryError) in
                    try await delivery.takeKeyPackage(of: client)
                })
            else { break }
            do throws(MLSError) {
                let package = try KeyPackage(message: bytes)
                try package.validate(
                    options.suite, at: options.now(), maximumLifetime: options.configuration.maximumLifetime,
                    authentication: options.configuration.authentication)
                guard options.isCredential(package.leafNode.credential, client) else { throw .credentialRejected }
                return package
            } catch {
                // One of last resort comes again and again.
                guard error == .leafExpired, bytes != last else { throw .refused(error) }
                last = bytes
            }
        }
        throw .noKeyPackage(client)
    }

    /// Keeps a key for proposals of the kind `psk`, under a name all members know it by.
    public func addPresharedKey(_ id: [UInt8], _ key: borrowing Secret) throws(GroupError) {
        let item = StorageItem(psk: id, key)
        try storing { () throws(GroupStorageError) in try storage.put([item]) }
    }

    /// Forgets such a key.
    public func removePresharedKey(_ id: [UInt8]) throws(GroupError) {
        try storing { () throws(GroupStorageError) in
            try storage.put([], removing: [StorageItem.Key(.psk, id)])
        }
    }
}

// The cryptography of QUIC: the TLS 1.3 handshake and the protection of packets.
//
// A thin layer over the BoringSSL that swift-nio-ssl ships. It is the only place in the package that names
// BoringSSL; none of BoringSSL's types appear in this header, so that a new release of it changes one C file.
//
// Nothing here calls back into Swift. What the handshake produces (bytes, secrets, tickets) waits in the session
// until it is taken. One session belongs to one caller at a time; `kith_keys` never changes once made and may be
// used from several threads at once.

#ifndef KITH_CQUICCRYPTO_H
#define KITH_CQUICCRYPTO_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma clang assume_nonnull begin

// Versions of QUIC, as the key schedule tells them apart (RFC 9001 §5.2, RFC 9369 §3.3).

#define KITH_VERSION_1 1
#define KITH_VERSION_2 2

// Cipher suites (RFC 9001 §5.3).

#define KITH_SUITE_AES_128_GCM 0
#define KITH_SUITE_AES_256_GCM 1
#define KITH_SUITE_CHACHA20_POLY1305 2

// The bytes an AEAD adds to a packet, in every suite.
#define KITH_TAG_LENGTH 16

// ---------------------------------------------------------------------------------------------------------------
// Packet protection (RFC 9001 §5)

// The keys of one direction in one encryption level and key phase. Made once, used for many packets, zeroed at
// the end.
typedef struct kith_keys kith_keys;

// Derives keys from a traffic secret of 32 bytes (48 for AES-256-GCM). NULL: the lengths do not fit, or no memory.
kith_keys *_Nullable kith_keys_new(int version, int suite, const uint8_t *secret, size_t secret_count);

// The keys of the next key phase (RFC 9001 §6.1): a new secret, key and nonce; the same header protection key.
kith_keys *_Nullable kith_keys_next(const kith_keys *keys);

// Overwrites the keys with zeros and frees them. NULL is allowed.
void kith_keys_free(kith_keys *_Nullable keys);

// One packet to be protected: `header_count` bytes of header, whose last `number_count` bytes are the packet number;
// `payload_count` bytes of payload; KITH_TAG_LENGTH free bytes. It starts `offset` bytes into the buffer.
typedef struct {
    size_t offset;
    uint32_t header_count;
    uint32_t payload_count;
    uint32_t number_count;
    uint64_t number;
} kith_packet;

// Encrypts `count` packets in place and protects their headers. Each needs number_count + payload_count of at
// least 4, so that there is a sample (RFC 9001 §5.4.2). Returns the number of packets protected: `count`, unless a
// description is impossible.
size_t kith_keys_protect(const kith_keys *keys, uint8_t *buffer, const kith_packet *packets, size_t count);

// What header protection hid.
typedef struct {
    uint8_t first_byte;
    uint8_t number_count;
    uint32_t number;
} kith_header;

// Removes the header protection of one packet in place. Returns 0 when the packet is too short for a sample.
int kith_keys_unmask(const kith_keys *keys, uint8_t *packet, size_t count, size_t number_offset, kith_header *header);

// Decrypts one packet in place, its header already unmasked. Returns the length of the payload, or -1 when the
// packet is not authentic; the payload is destroyed then, the last KITH_TAG_LENGTH bytes are not.
ptrdiff_t kith_keys_open(const kith_keys *keys, uint8_t *packet, size_t count, size_t header_count, uint64_t number);

// The five mask bytes for a sample of 16 (RFC 9001 §5.4.3, §5.4.4).
void kith_keys_mask(const kith_keys *keys, const uint8_t *sample, uint8_t *mask);

// ---------------------------------------------------------------------------------------------------------------
// Key schedule

// HKDF-Expand-Label with an empty context (RFC 8446 §7.1), hash of `suite`. `label` without "tls13 ". 1 on success.
int kith_expand_label(
    int suite, const uint8_t *secret, size_t secret_count, const char *label, uint8_t *out, size_t out_count);

// The client's and the server's Initial secret, 32 bytes each (RFC 9001 §5.2). 1 on success.
int kith_initial_secrets(
    int version, const uint8_t *destination, size_t count, uint8_t *client, uint8_t *server);

// The Retry Integrity Tag over a Retry pseudo-packet (RFC 9001 §5.8), 16 bytes. 1 on success.
int kith_retry_tag(int version, const uint8_t *pseudo_packet, size_t count, uint8_t *tag);

// HMAC-SHA256, 32 bytes. 1 on success.
int kith_hmac(const uint8_t *key, size_t key_count, const uint8_t *data, size_t count, uint8_t *out);

// 1 when both hold the same bytes; takes the same time wherever they differ.
int kith_equal(const uint8_t *one, const uint8_t *other, size_t count);

// Writes zeros that no optimiser removes.
void kith_zero(void *bytes, size_t count);

// ---------------------------------------------------------------------------------------------------------------
// TLS 1.3 for QUIC (RFC 9001 §4)

// One handshake and what it leaves behind.
typedef struct kith_tls kith_tls;

// Encryption levels; also the index of a level's CRYPTO stream.
#define KITH_LEVEL_INITIAL 0
#define KITH_LEVEL_ZERO_RTT 1
#define KITH_LEVEL_HANDSHAKE 2
#define KITH_LEVEL_ONE_RTT 3

// Credential kinds, the values of the TLS Certificate Types registry.
#define KITH_KIND_X509 0
#define KITH_KIND_RAW_PUBLIC_KEY 2

// Key exchanges: an X25519 share, X25519MLKEM768 accepted; X25519MLKEM768 and X25519 shares, more than one datagram;
// X25519MLKEM768 unknown.
#define KITH_EXCHANGE_CLASSICAL 0
#define KITH_EXCHANGE_POST_QUANTUM 1
#define KITH_EXCHANGE_CLASSICAL_ONLY 2

// Cipher suites, best first: AES before ChaCha20 where the processor does AES itself, and after it elsewhere; always
// before it; always after it; ChaCha20 alone.
#define KITH_CIPHERS_AUTOMATIC 0
#define KITH_CIPHERS_AES 1
#define KITH_CIPHERS_CHACHA20 2
#define KITH_CIPHERS_CHACHA20_ONLY 3

// 1 when the processor does AES-GCM itself, fast and in constant time.
int kith_has_aes_hardware(void);

// What a session is made with. Every pointer need only live during kith_tls_new.
typedef struct {
    int is_server;
    // Server: ask the client for a credential; refuse it without one.
    int require_peer_credential;
    // KITH_EXCHANGE_….
    int key_exchange;
    // KITH_CIPHERS_….
    int ciphers;
    int wants_key_log;
    int early_data;
    // KITH_KIND_…, best first.
    const uint8_t *accepted_kinds;
    size_t accepted_kinds_count;
    // Protocol names, each after its length byte, best first.
    const uint8_t *alpn;
    size_t alpn_count;
    const uint8_t *transport_parameters;
    size_t transport_parameters_count;
    // Client: the name sent in SNI.
    const char *_Nullable server_name;
    // Server: 48 bytes that seal session tickets. NULL: no tickets.
    const uint8_t *_Nullable ticket_key;
    // Client: a ticket taken from an earlier session.
    const uint8_t *_Nullable ticket;
    size_t ticket_count;
    // Server: must be equal where a ticket is minted and where its early data is accepted.
    const uint8_t *_Nullable early_data_context;
    size_t early_data_context_count;
    // Server: stops at the ClientHello until kith_tls_set_parameters (KITH_STEP_ASKS_PARAMETERS).
    int asks_parameters;
} kith_tls_options;

// A session that has not started. NULL: an option is malformed, or no memory.
kith_tls *_Nullable kith_tls_new(const kith_tls_options *options);

// Overwrites what waits to be taken with zeros and frees the session. NULL is allowed.
void kith_tls_free(kith_tls *_Nullable tls);

// Adds an Ed25519 raw public key (RFC 7250) as a credential, before the handshake. `seed`: 32 bytes. 1 on success.
int kith_tls_add_raw_public_key(kith_tls *tls, const uint8_t *seed);

// Adds a certificate chain, leaf first, whose leaf has the Ed25519 key of `seed`. `chain` holds the DER
// certificates one after the other, `counts` their lengths. 1 on success.
int kith_tls_add_certificates(
    kith_tls *tls, const uint8_t *seed, const uint8_t *chain, const size_t *counts, size_t certificates);

// The same with the leaf's private key as it stands in DER: PKCS #8, SEC 1 or PKCS #1; Ed25519, P-256, P-384 or RSA.
int kith_tls_add_certificates_with_key(
    kith_tls *tls, const uint8_t *key, size_t key_count, const uint8_t *chain, const size_t *counts,
    size_t certificates);

// Hands over CRYPTO bytes of one level, in order. 0: the handshake expects nothing at that level, or too much came.
int kith_tls_provide(kith_tls *tls, int level, const uint8_t *bytes, size_t count);

#define KITH_STEP_FAILED -1
#define KITH_STEP_WAITING 0
#define KITH_STEP_COMPLETE 1
#define KITH_STEP_ASKS_VERDICT 2
#define KITH_STEP_ASKS_PARAMETERS 3
#define KITH_STEP_ASKS_EARLY_VERDICT 4

// Goes on as far as it can. After KITH_STEP_ASKS_VERDICT, look at the peer's credential, give the verdict, and go on.
// After KITH_STEP_ASKS_PARAMETERS, read the client's transport parameters, set the server's, and go on.
int kith_tls_advance(kith_tls *tls);

// Answers KITH_STEP_ASKS_PARAMETERS: what the server sends, and what its tickets are good for: `scope` must be equal
// where a session is resumed, `context` too where its early data is accepted. 1 on success.
int kith_tls_set_parameters(
    kith_tls *tls, const uint8_t *parameters, size_t parameters_count, const uint8_t *scope, size_t scope_count,
    const uint8_t *context, size_t context_count);

// Answers KITH_STEP_ASKS_EARLY_VERDICT: whether early data may flow with the peer of the resumed session. A refusal
// becomes the alert access_denied (49). The verdict on the peer itself is still asked for.
void kith_tls_give_early_verdict(kith_tls *tls, int accepted);

// Says whether the peer is accepted. A refusal becomes the alert access_denied (49).
void kith_tls_give_verdict(kith_tls *tls, int accepted);

// The alert the failure calls for (RFC 8446 §6), and BoringSSL's short reason for it.
uint8_t kith_tls_alert(const kith_tls *tls);
const char *kith_tls_reason(const kith_tls *tls);

// The oldest secret not yet taken. 0: there is none. `secret` has room for 48 bytes.
int kith_tls_take_secret(
    kith_tls *tls, int *level, int *is_write, int *suite, uint8_t *secret, size_t *secret_count);

// CRYPTO bytes to send: the lowest level that has any. 0: none. The bytes stay valid until kith_tls_output_taken,
// or the next kith_tls_advance.
int kith_tls_output(const kith_tls *tls, int *level, const uint8_t *_Nullable *_Nonnull bytes, size_t *count);
void kith_tls_output_taken(kith_tls *tls, int level);

#define KITH_ITEM_TICKET 0
#define KITH_ITEM_KEY_LOG_LINE 1

// The oldest ticket or key log line. NULL: none. Valid until kith_tls_item_taken.
const uint8_t *_Nullable kith_tls_item(const kith_tls *tls, int item, size_t *count);
void kith_tls_item_taken(kith_tls *tls, int item);

// The level at which CRYPTO bytes are expected, and the most of them a peer may send at one level.
int kith_tls_read_level(const kith_tls *tls);
size_t kith_tls_max_flight(const kith_tls *tls, int level);

#define KITH_VALUE_PEER_TRANSPORT_PARAMETERS 0
#define KITH_VALUE_ALPN 1
#define KITH_VALUE_SERVER_NAME 2
// Server: the random bytes of the ClientHello, by which a repeated one is known.
#define KITH_VALUE_CLIENT_RANDOM 3

// A value the handshake agreed on, valid while the session lives. NULL: not known (yet).
const uint8_t *_Nullable kith_tls_value(const kith_tls *tls, int value, size_t *count);

// The peer's raw Ed25519 key, 32 bytes. 0: it showed none.
int kith_tls_peer_key(const kith_tls *tls, uint8_t *key);

// The peer's certificates in DER, leaf first. NULL beyond the last. Valid while the session lives.
const uint8_t *_Nullable kith_tls_peer_certificate(const kith_tls *tls, size_t index, size_t *count);

#define KITH_FACT_RESUMED 0
#define KITH_FACT_EARLY_DATA_ACCEPTED 1
#define KITH_FACT_GROUP 2
// Client: the server has answered that it does not take the early data.
#define KITH_FACT_EARLY_DATA_REJECTED 3

// 1 or 0; for KITH_FACT_GROUP the TLS number of the key exchange group, 0 before one is chosen.
int kith_tls_fact(const kith_tls *tls, int fact);

// Derives keying material (RFC 8446 §7.5) from a complete handshake. 1 on success.
int kith_tls_export(
    const kith_tls *tls, const char *label, size_t label_count, const uint8_t *context, size_t context_count,
    uint8_t *out, size_t out_count);

#pragma clang assume_nonnull end

#ifdef __cplusplus
}
#endif

#endif

// TLS 1.3 for QUIC (RFC 9001 §4): BoringSSL's QUIC hooks, gathered into queues that the caller empties.

#include "CQUICCrypto.h"

#include <CNIOBoringSSL.h>
#include <stdlib.h>
#include <string.h>

enum { levels = 4, max_secrets = 8, max_secret = 48, max_items = 16, max_certificates = 16 };

typedef struct {
    uint8_t *bytes;
    size_t count;
    size_t capacity;
} buffer;

typedef struct {
    int level;
    int is_write;
    int suite;
    size_t count;
    uint8_t bytes[max_secret];
} secret;

// A short queue of byte strings; what does not fit is dropped, because nothing depends on it.
typedef struct {
    buffer items[max_items];
    size_t count;
} queue;

enum { verdict_open, verdict_yes, verdict_no };

struct kith_tls {
    SSL_CTX *context;
    SSL *ssl;
    buffer output[levels];
    secret secrets[max_secrets];
    size_t secret_count;
    queue items[2];
    uint8_t *alpn;
    size_t alpn_count;
    // The client's transport parameters while the session waits for the server's.
    buffer offered_parameters;
    const char *reason;
    int is_server;
    int asks_parameters;
    int has_parameters;
    int is_early_rejected;
    int verdict;
    int early_verdict;
    uint8_t client_random[SSL3_RANDOM_SIZE];
    int has_client_random;
    int failed;
    int alert;
};

// MARK: Buffers

static void buffer_free(buffer *b) {
    if (b->bytes != NULL) OPENSSL_cleanse(b->bytes, b->capacity);
    free(b->bytes);
    memset(b, 0, sizeof(*b));
}

// Grows by copying, never by realloc, which would leave secrets behind in freed memory.
static int buffer_append(buffer *b, const uint8_t *bytes, size_t count) {
    if (count == 0) return 1;
    if (b->count + count > b->capacity) {
        size_t capacity = b->capacity * 2 > b->count + count ? b->capacity * 2 : b->count + count;
        uint8_t *grown = malloc(capacity);
        if (grown == NULL) return 0;
        const size_t held = b->count;
        if (held > 0) memcpy(grown, b->bytes, held);
        buffer_free(b);
        b->bytes = grown;
        b->count = held;
        b->capacity = capacity;
    }
    memcpy(b->bytes + b->count, bytes, count);
    b->count += count;
    return 1;
}

static void queue_append(queue *q, const uint8_t *bytes, size_t count) {
    if (q->count == max_items) return;
    if (buffer_append(&q->items[q->count], bytes, count)) q->count++;
}

// MARK: BoringSSL's hooks

static kith_tls *session_of(const SSL *ssl) { return SSL_get_app_data(ssl); }

static int add_secret(
    SSL *ssl, enum ssl_encryption_level_t level, const SSL_CIPHER *cipher, const uint8_t *bytes, size_t count,
    int is_write) {
    kith_tls *tls = session_of(ssl);
    if (tls->secret_count == max_secrets || count > max_secret) return 0;
    secret *s = &tls->secrets[tls->secret_count];
    switch (SSL_CIPHER_get_protocol_id(cipher)) {
        case 0x1301: s->suite = KITH_SUITE_AES_128_GCM; break;
        case 0x1302: s->suite = KITH_SUITE_AES_256_GCM; break;
        case 0x1303: s->suite = KITH_SUITE_CHACHA20_POLY1305; break;
        default: return 0;
    }
    s->level = (int)level;
    s->is_write = is_write;
    s->count = count;
    memcpy(s->bytes, bytes, count);
    tls->secret_count++;
    return 1;
}

static int on_read_secret(
    SSL *ssl, enum ssl_encryption_level_t level, const SSL_CIPHER *cipher, const uint8_t *bytes, size_t count) {
    return add_secret(ssl, level, cipher, bytes, count, 0);
}

static int on_write_secret(
    SSL *ssl, enum ssl_encryption_level_t level, const SSL_CIPHER *cipher, const uint8_t *bytes, size_t count) {
    return add_secret(ssl, level, cipher, bytes, count, 1);
}

static int on_handshake_data(SSL *ssl, enum ssl_encryption_level_t level, const uint8_t *bytes, size_t count) {
    return buffer_append(&session_of(ssl)->output[level], bytes, count);
}

static int on_flush(SSL *ssl) {
    (void)ssl;
    return 1;
}

static int on_alert(SSL *ssl, enum ssl_encryption_level_t level, uint8_t alert) {
    (void)level;
    kith_tls *tls = session_of(ssl);
    if (tls->alert < 0) tls->alert = alert;
    return 1;
}

static const SSL_QUIC_METHOD quic_method = {
    .set_read_secret = on_read_secret,
    .set_write_secret = on_write_secret,
    .add_handshake_data = on_handshake_data,
    .flush_flight = on_flush,
    .send_alert = on_alert,
};

static enum ssl_verify_result_t on_verify(SSL *ssl, uint8_t *alert) {
    switch (session_of(ssl)->verdict) {
        case verdict_open: return ssl_verify_retry;
        case verdict_yes: return ssl_verify_ok;
        default: *alert = SSL_AD_ACCESS_DENIED; return ssl_verify_invalid;
    }
}

// Picks the first of ours that the client offers (RFC 7301 §3.2).
static int on_alpn(
    SSL *ssl, const uint8_t **out, uint8_t *out_count, const uint8_t *offered, unsigned offered_count, void *arg) {
    (void)ssl;
    const kith_tls *tls = arg;
    for (size_t i = 0; i + 1 + tls->alpn[i] <= tls->alpn_count; i += 1 + tls->alpn[i]) {
        for (size_t j = 0; j < offered_count && j + 1 + offered[j] <= offered_count; j += 1 + offered[j]) {
            if (tls->alpn[i] == offered[j] && memcmp(tls->alpn + i + 1, offered + j + 1, offered[j]) == 0) {
                *out = offered + j + 1;
                *out_count = offered[j];
                return SSL_TLSEXT_ERR_OK;
            }
        }
        if (i + 1 + tls->alpn[i] == tls->alpn_count) break;
    }
    return SSL_TLSEXT_ERR_ALERT_FATAL;
}

// Whether the client takes nothing but a raw public key from the server (RFC 7250 §4.1).
static int wants_key_only(const SSL_CLIENT_HELLO *hello) {
    static const uint16_t server_certificate_type = 20;
    static const uint8_t x509 = 0;
    const uint8_t *bytes = NULL;
    size_t count = 0;
    if (!SSL_early_callback_ctx_extension_get(hello, server_certificate_type, &bytes, &count)) return 0;
    // A list with a length of one byte before it.
    return count > 1 && memchr(bytes + 1, x509, count - 1) == NULL;
}

// Stops at the ClientHello: what the server says about itself may depend on what the client said.
static enum ssl_select_cert_result_t on_client_hello(const SSL_CLIENT_HELLO *hello) {
    kith_tls *tls = session_of(hello->ssl);
    if (hello->random_len == sizeof(tls->client_random)) {
        memcpy(tls->client_random, hello->random, hello->random_len);
        tls->has_client_random = 1;
    }
    // Such a client must be told in every handshake that a key is what it gets (rustls, BoringSSL itself), and BoringSSL
    // does not say so when it resumes: it gets a full handshake each time.
    if (wants_key_only(hello)) SSL_set_options(hello->ssl, SSL_OP_NO_TICKET);
    if (!tls->asks_parameters || tls->has_parameters) return ssl_select_cert_success;
    const uint8_t *bytes = NULL;
    size_t count = 0;
    if (tls->offered_parameters.count == 0
        && SSL_early_callback_ctx_extension_get(hello, TLSEXT_TYPE_quic_transport_parameters, &bytes, &count)
        && !buffer_append(&tls->offered_parameters, bytes, count)) {
        return ssl_select_cert_error;
    }
    return ssl_select_cert_retry;
}

static int on_new_session(SSL *ssl, SSL_SESSION *session) {
    kith_tls *tls = session_of(ssl);
    uint8_t *bytes = NULL;
    size_t count = 0;
    if (!tls->is_server && SSL_SESSION_to_bytes(session, &bytes, &count)) {
        queue_append(&tls->items[KITH_ITEM_TICKET], bytes, count);
        OPENSSL_free(bytes);
    }
    return 0;
}

static void on_key_log(const SSL *ssl, const char *line) {
    queue_append(&session_of(ssl)->items[KITH_ITEM_KEY_LOG_LINE], (const uint8_t *)line, strlen(line));
}

// MARK: Making a session

static int configure_context(SSL_CTX *context, const kith_tls_options *options) {
    static const uint8_t scope[] = {'k', 'i', 't', 'h'};
    if (!SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION)
        || !SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION)
        || !SSL_CTX_set_session_id_context(context, scope, sizeof(scope))) {
        return 0;
    }
    SSL_CTX_set_early_data_enabled(context, options->early_data);
    if (options->is_server) {
        SSL_CTX_set_select_certificate_cb(context, on_client_hello);
        SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
        if (options->ticket_key == NULL) {
            SSL_CTX_set_options(context, SSL_OP_NO_TICKET);
        } else if (!SSL_CTX_set_tlsext_ticket_keys(context, options->ticket_key, 48)) {
            return 0;
        }
    } else {
        // Reserved values everywhere (RFC 8701), and extensions in no fixed order: so that servers keep bearing both.
        SSL_CTX_set_grease_enabled(context, 1);
        SSL_CTX_set_permute_extensions(context, 1);
        SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
        SSL_CTX_sess_set_new_cb(context, on_new_session);
    }
    if (options->wants_key_log) SSL_CTX_set_keylog_callback(context, on_key_log);
    return 1;
}

int kith_has_aes_hardware(void) { return EVP_has_aes_hardware(); }

static int set_ciphers(SSL *ssl, int preference) {
    static const uint16_t aes[] = {
        SSL_CIPHER_AES_128_GCM_SHA256, SSL_CIPHER_AES_256_GCM_SHA384, SSL_CIPHER_CHACHA20_POLY1305_SHA256};
    static const uint16_t chacha20[] = {
        SSL_CIPHER_CHACHA20_POLY1305_SHA256, SSL_CIPHER_AES_128_GCM_SHA256, SSL_CIPHER_AES_256_GCM_SHA384};
    switch (preference) {
        // BoringSSL's own order, by EVP_has_aes_hardware: a server with AES hardware follows its client.
        case KITH_CIPHERS_AUTOMATIC: return 1;
        case KITH_CIPHERS_AES: return SSL_set1_tls13_ciphers(ssl, aes, NULL, 3);
        case KITH_CIPHERS_CHACHA20: return SSL_set1_tls13_ciphers(ssl, chacha20, NULL, 3);
        case KITH_CIPHERS_CHACHA20_ONLY: return SSL_set1_tls13_ciphers(ssl, chacha20, NULL, 1);
        default: return 0;
    }
}

static int set_algorithms(SSL *ssl, const kith_tls_options *options) {
    // Ours sign with Ed25519; the others let a foreign peer's certificate in.
    static const uint16_t verify[] = {
        SSL_SIGN_ED25519, SSL_SIGN_ECDSA_SECP256R1_SHA256, SSL_SIGN_ECDSA_SECP384R1_SHA384,
        SSL_SIGN_RSA_PSS_RSAE_SHA256, SSL_SIGN_RSA_PSS_RSAE_SHA384, SSL_SIGN_RSA_PSS_RSAE_SHA512};
    static const uint16_t sign[] = {SSL_SIGN_ED25519};
    static const uint16_t classical[] = {SSL_GROUP_X25519, SSL_GROUP_SECP256R1, SSL_GROUP_X25519_MLKEM768};
    static const uint16_t quantum[] = {SSL_GROUP_X25519_MLKEM768, SSL_GROUP_X25519, SSL_GROUP_SECP256R1};
    const int is_quantum = options->key_exchange == KITH_EXCHANGE_POST_QUANTUM;
    const size_t groups = options->key_exchange == KITH_EXCHANGE_CLASSICAL_ONLY ? 2 : 3;
    if (!SSL_set_verify_algorithm_prefs(ssl, verify, sizeof(verify) / sizeof(verify[0]))
        || !SSL_set_signing_algorithm_prefs(ssl, sign, 1)
        || !SSL_set1_group_ids(ssl, is_quantum ? quantum : classical, groups) || !set_ciphers(ssl, options->ciphers)) {
        return 0;
    }
    // Left alone, BoringSSL sends a post-quantum share too, and the ClientHello no longer fits one datagram.
    return options->is_server
        || SSL_set1_client_key_shares(ssl, is_quantum ? quantum : classical, is_quantum ? 2 : 1);
}

static int configure_session(kith_tls *tls, const kith_tls_options *options) {
    SSL *ssl = tls->ssl;
    if (!SSL_set_app_data(ssl, tls) || !SSL_set_quic_method(ssl, &quic_method) || !set_algorithms(ssl, options)
        || !SSL_set1_accepted_peer_cert_types(ssl, options->accepted_kinds, options->accepted_kinds_count)
        || !SSL_set_quic_transport_params(ssl, options->transport_parameters, options->transport_parameters_count)) {
        return 0;
    }
    int mode = SSL_VERIFY_PEER;
    if (options->require_peer_credential) mode |= SSL_VERIFY_FAIL_IF_NO_PEER_CERT;
    SSL_set_custom_verify(ssl, mode, on_verify);
    if (options->is_server) {
        SSL_set_accept_state(ssl);
        SSL_CTX_set_alpn_select_cb(tls->context, on_alpn, tls);
        return options->early_data_context_count == 0
            || SSL_set_quic_early_data_context(ssl, options->early_data_context, options->early_data_context_count);
    }
    SSL_set_connect_state(ssl);
    // This one call answers 0 for success.
    if (SSL_set_alpn_protos(ssl, options->alpn, options->alpn_count) != 0) return 0;
    if (options->server_name != NULL && !SSL_set_tlsext_host_name(ssl, options->server_name)) return 0;
    if (options->ticket != NULL) {
        SSL_SESSION *session = SSL_SESSION_from_bytes(options->ticket, options->ticket_count, tls->context);
        // A ticket that cannot be read costs a full handshake, nothing else.
        if (session == NULL) return 1;
        int ok = SSL_set_session(ssl, session);
        SSL_SESSION_free(session);
        return ok;
    }
    return 1;
}

// Every name has 1 to 255 bytes and the last one ends where the list does.
static int is_alpn_list(const uint8_t *bytes, size_t count) {
    size_t i = 0;
    while (i < count) {
        if (bytes[i] == 0) return 0;
        i += 1 + bytes[i];
    }
    return count > 0 && i == count;
}

kith_tls *kith_tls_new(const kith_tls_options *options) {
    if (!is_alpn_list(options->alpn, options->alpn_count)) return NULL;
    kith_tls *tls = calloc(1, sizeof(kith_tls));
    if (tls == NULL) return NULL;
    tls->alert = -1;
    tls->reason = "";
    tls->is_server = options->is_server;
    tls->asks_parameters = options->is_server && options->asks_parameters;
    tls->alpn = malloc(options->alpn_count);
    tls->context = SSL_CTX_new(TLS_with_buffers_method());
    if (tls->alpn != NULL && tls->context != NULL && configure_context(tls->context, options)) {
        memcpy(tls->alpn, options->alpn, options->alpn_count);
        tls->alpn_count = options->alpn_count;
        tls->ssl = SSL_new(tls->context);
        if (tls->ssl != NULL && configure_session(tls, options)) {
            ERR_clear_error();
            return tls;
        }
    }
    ERR_clear_error();
    kith_tls_free(tls);
    return NULL;
}

void kith_tls_free(kith_tls *tls) {
    if (tls == NULL) return;
    SSL_free(tls->ssl);
    SSL_CTX_free(tls->context);
    for (int i = 0; i < levels; i++) buffer_free(&tls->output[i]);
    for (int item = 0; item < 2; item++) {
        for (size_t i = 0; i < tls->items[item].count; i++) buffer_free(&tls->items[item].items[i]);
    }
    buffer_free(&tls->offered_parameters);
    free(tls->alpn);
    OPENSSL_cleanse(tls, sizeof(kith_tls));
    free(tls);
}

// MARK: Credentials

static uint16_t signature_of(const EVP_PKEY *key) {
    switch (EVP_PKEY_id(key)) {
        case EVP_PKEY_ED25519: return SSL_SIGN_ED25519;
        case EVP_PKEY_RSA: return SSL_SIGN_RSA_PSS_RSAE_SHA256;
        case EVP_PKEY_EC:
            switch (EVP_PKEY_get_ec_curve_nid(key)) {
                case NID_X9_62_prime256v1: return SSL_SIGN_ECDSA_SECP256R1_SHA256;
                case NID_secp384r1: return SSL_SIGN_ECDSA_SECP384R1_SHA384;
                default: return 0;
            }
        default: return 0;
    }
}

static int add_credential(kith_tls *tls, SSL_CREDENTIAL *credential, const EVP_PKEY *key) {
    const uint16_t sign[] = {signature_of(key)};
    int ok = credential != NULL && sign[0] != 0 && SSL_CREDENTIAL_set1_signing_algorithm_prefs(credential, sign, 1)
          && SSL_add1_credential(tls->ssl, credential);
    SSL_CREDENTIAL_free(credential);
    if (!ok) ERR_clear_error();
    return ok;
}

int kith_tls_add_raw_public_key(kith_tls *tls, const uint8_t *seed) {
    EVP_PKEY *key = EVP_PKEY_from_raw_private_key(EVP_pkey_ed25519(), seed, 32);
    if (key == NULL) return 0;
    int ok = add_credential(tls, SSL_CREDENTIAL_new_raw_public_key(key), key);
    EVP_PKEY_free(key);
    return ok;
}

// Takes the key.
static int add_chain(
    kith_tls *tls, EVP_PKEY *key, const uint8_t *chain, const size_t *counts, size_t certificates) {
    if (certificates == 0 || certificates > max_certificates) {
        EVP_PKEY_free(key);
        return 0;
    }
    CRYPTO_BUFFER *buffers[max_certificates] = {NULL};
    int ok = 1;
    for (size_t i = 0; i < certificates && ok; i++) {
        buffers[i] = CRYPTO_BUFFER_new(chain, counts[i], NULL);
        chain += counts[i];
        ok = buffers[i] != NULL;
    }
    SSL_CREDENTIAL *credential = SSL_CREDENTIAL_new_x509();
    ok = ok && key != NULL && credential != NULL
      && SSL_CREDENTIAL_set1_cert_chain(credential, buffers, certificates)
      && SSL_CREDENTIAL_set1_private_key(credential, key);
    if (ok) {
        ok = add_credential(tls, credential, key);
    } else {
        SSL_CREDENTIAL_free(credential);
        ERR_clear_error();
    }
    EVP_PKEY_free(key);
    for (size_t i = 0; i < certificates; i++) CRYPTO_BUFFER_free(buffers[i]);
    return ok;
}

int kith_tls_add_certificates(
    kith_tls *tls, const uint8_t *seed, const uint8_t *chain, const size_t *counts, size_t certificates) {
    EVP_PKEY *key = EVP_PKEY_from_raw_private_key(EVP_pkey_ed25519(), seed, 32);
    return add_chain(tls, key, chain, counts, certificates);
}

int kith_tls_add_certificates_with_key(
    kith_tls *tls, const uint8_t *key, size_t key_count, const uint8_t *chain, const size_t *counts,
    size_t certificates) {
    EVP_PKEY *parsed = d2i_AutoPrivateKey(NULL, &key, (long)key_count);
    int ok = add_chain(tls, parsed, chain, counts, certificates);
    ERR_clear_error();
    return ok;
}

// MARK: The handshake

static int fail(kith_tls *tls) {
    const char *reason = ERR_reason_error_string(ERR_peek_error());
    tls->failed = 1;
    if (reason != NULL) tls->reason = reason;
    if (tls->alert < 0) tls->alert = SSL_AD_INTERNAL_ERROR;
    ERR_clear_error();
    return KITH_STEP_FAILED;
}

// Whoever is refused has no use for the keys of early data, which wait with the alert's.
static void drop_early_secrets(kith_tls *tls) {
    size_t kept = 0;
    for (size_t i = 0; i < tls->secret_count; i++) {
        if (tls->secrets[i].level == KITH_LEVEL_ZERO_RTT) continue;
        if (kept != i) tls->secrets[kept] = tls->secrets[i];
        kept++;
    }
    for (size_t i = kept; i < tls->secret_count; i++) OPENSSL_cleanse(&tls->secrets[i], sizeof(secret));
    tls->secret_count = kept;
}

static int deny(kith_tls *tls) {
    drop_early_secrets(tls);
    tls->alert = SSL_AD_ACCESS_DENIED;
    tls->reason = "ACCESS_DENIED";
    return fail(tls);
}

int kith_tls_provide(kith_tls *tls, int level, const uint8_t *bytes, size_t count) {
    if (tls->failed) return 0;
    if (count == 0) return 1;
    if (SSL_provide_quic_data(tls->ssl, (enum ssl_encryption_level_t)level, bytes, count)) return 1;
    if (tls->alert < 0) tls->alert = SSL_AD_UNEXPECTED_MESSAGE;
    fail(tls);
    return 0;
}

int kith_tls_advance(kith_tls *tls) {
    if (tls->failed) return KITH_STEP_FAILED;
    ERR_clear_error();
    if (tls->early_verdict == verdict_no) return deny(tls);
    // Ends: every turn but the last consumes a state of the handshake that cannot come again.
    for (int turn = 0; SSL_in_init(tls->ssl) && turn < 8; turn++) {
        int result = SSL_do_handshake(tls->ssl);
        if (result == 1) {
            if (!SSL_in_early_data(tls->ssl)) continue;
            // A server decides on what may be a repetition, a client on whom it tells, before the keys are used.
            if (tls->early_verdict == verdict_open) return KITH_STEP_ASKS_EARLY_VERDICT;
            continue;
        }
        switch (SSL_get_error(tls->ssl, result)) {
            case SSL_ERROR_WANT_READ: return KITH_STEP_WAITING;
            case SSL_ERROR_WANT_CERTIFICATE_VERIFY: return KITH_STEP_ASKS_VERDICT;
            case SSL_ERROR_PENDING_CERTIFICATE: return KITH_STEP_ASKS_PARAMETERS;
            case SSL_ERROR_EARLY_DATA_REJECTED:
                tls->is_early_rejected = 1;
                SSL_reset_early_data_reject(tls->ssl);
                continue;
            default: return fail(tls);
        }
    }
    if (SSL_in_init(tls->ssl)) return KITH_STEP_WAITING;
    // A resumed session, or a client that showed nothing, has not been through on_verify: nobody gets in unasked.
    if (tls->verdict == verdict_open) return KITH_STEP_ASKS_VERDICT;
    if (tls->verdict == verdict_no) return deny(tls);
    if (!SSL_process_quic_post_handshake(tls->ssl)) return fail(tls);
    return KITH_STEP_COMPLETE;
}

int kith_tls_set_parameters(
    kith_tls *tls, const uint8_t *parameters, size_t parameters_count, const uint8_t *scope, size_t scope_count,
    const uint8_t *context, size_t context_count) {
    tls->has_parameters = 1;
    return SSL_set_quic_transport_params(tls->ssl, parameters, parameters_count)
        && SSL_set_session_id_context(tls->ssl, scope, scope_count)
        && (context_count == 0 || SSL_set_quic_early_data_context(tls->ssl, context, context_count));
}

void kith_tls_give_verdict(kith_tls *tls, int accepted) {
    if (tls->verdict == verdict_open) tls->verdict = accepted ? verdict_yes : verdict_no;
}

void kith_tls_give_early_verdict(kith_tls *tls, int accepted) {
    if (tls->early_verdict == verdict_open) tls->early_verdict = accepted ? verdict_yes : verdict_no;
}

uint8_t kith_tls_alert(const kith_tls *tls) {
    return tls->alert < 0 ? SSL_AD_INTERNAL_ERROR : (uint8_t)tls->alert;
}

const char *kith_tls_reason(const kith_tls *tls) { return tls->reason; }

// MARK: What waits to be taken

int kith_tls_take_secret(
    kith_tls *tls, int *level, int *is_write, int *suite, uint8_t *bytes, size_t *count) {
    if (tls->secret_count == 0) return 0;
    const secret *first = &tls->secrets[0];
    *level = first->level;
    *is_write = first->is_write;
    *suite = first->suite;
    *count = first->count;
    memcpy(bytes, first->bytes, first->count);
    tls->secret_count--;
    memmove(&tls->secrets[0], &tls->secrets[1], tls->secret_count * sizeof(secret));
    OPENSSL_cleanse(&tls->secrets[tls->secret_count], sizeof(secret));
    return 1;
}

int kith_tls_output(const kith_tls *tls, int *level, const uint8_t **bytes, size_t *count) {
    for (int i = 0; i < levels; i++) {
        if (tls->output[i].count > 0) {
            *level = i;
            *bytes = tls->output[i].bytes;
            *count = tls->output[i].count;
            return 1;
        }
    }
    return 0;
}

void kith_tls_output_taken(kith_tls *tls, int level) { buffer_free(&tls->output[level]); }

const uint8_t *kith_tls_item(const kith_tls *tls, int item, size_t *count) {
    const queue *q = &tls->items[item];
    if (q->count == 0) return NULL;
    *count = q->items[0].count;
    return q->items[0].bytes;
}

void kith_tls_item_taken(kith_tls *tls, int item) {
    queue *q = &tls->items[item];
    if (q->count == 0) return;
    buffer_free(&q->items[0]);
    q->count--;
    memmove(&q->items[0], &q->items[1], q->count * sizeof(buffer));
    memset(&q->items[q->count], 0, sizeof(buffer));
}

// MARK: What is known

int kith_tls_read_level(const kith_tls *tls) { return (int)SSL_quic_read_level(tls->ssl); }

size_t kith_tls_max_flight(const kith_tls *tls, int level) {
    return SSL_quic_max_handshake_flight_len(tls->ssl, (enum ssl_encryption_level_t)level);
}

const uint8_t *kith_tls_value(const kith_tls *tls, int value, size_t *count) {
    const uint8_t *bytes = NULL;
    *count = 0;
    switch (value) {
        case KITH_VALUE_PEER_TRANSPORT_PARAMETERS:
            if (tls->offered_parameters.count > 0) {
                *count = tls->offered_parameters.count;
                return tls->offered_parameters.bytes;
            }
            SSL_get_peer_quic_transport_params(tls->ssl, &bytes, count);
            return *count == 0 ? NULL : bytes;
        case KITH_VALUE_ALPN: {
            unsigned found = 0;
            SSL_get0_alpn_selected(tls->ssl, &bytes, &found);
            *count = found;
            return found == 0 ? NULL : bytes;
        }
        case KITH_VALUE_SERVER_NAME: {
            const char *name = SSL_get_servername(tls->ssl, TLSEXT_NAMETYPE_host_name);
            if (name != NULL) *count = strlen(name);
            return (const uint8_t *)name;
        }
        case KITH_VALUE_CLIENT_RANDOM:
            if (!tls->has_client_random) return NULL;
            *count = sizeof(tls->client_random);
            return tls->client_random;
        default: return NULL;
    }
}

int kith_tls_peer_key(const kith_tls *tls, uint8_t *key) {
    const EVP_PKEY *peer = SSL_get0_peer_rpk(tls->ssl);
    size_t count = 32;
    return peer != NULL && EVP_PKEY_id(peer) == EVP_PKEY_ED25519 && EVP_PKEY_get_raw_public_key(peer, key, &count)
        && count == 32;
}

const uint8_t *kith_tls_peer_certificate(const kith_tls *tls, size_t index, size_t *count) {
    const STACK_OF(CRYPTO_BUFFER) *chain = SSL_get0_peer_certificates(tls->ssl);
    *count = 0;
    if (chain == NULL || index >= sk_CRYPTO_BUFFER_num(chain)) return NULL;
    const CRYPTO_BUFFER *certificate = sk_CRYPTO_BUFFER_value(chain, index);
    *count = CRYPTO_BUFFER_len(certificate);
    return CRYPTO_BUFFER_data(certificate);
}

int kith_tls_fact(const kith_tls *tls, int fact) {
    switch (fact) {
        case KITH_FACT_RESUMED: return SSL_session_reused(tls->ssl);
        case KITH_FACT_EARLY_DATA_ACCEPTED: return SSL_early_data_accepted(tls->ssl);
        case KITH_FACT_GROUP: return SSL_get_group_id(tls->ssl);
        case KITH_FACT_EARLY_DATA_REJECTED: return tls->is_early_rejected;
        default: return 0;
    }
}

int kith_tls_export(
    const kith_tls *tls, const char *label, size_t label_count, const uint8_t *context, size_t context_count,
    uint8_t *out, size_t out_count) {
    int ok = SSL_export_keying_material(tls->ssl, out, out_count, label, label_count, context, context_count, 1);
    if (!ok) ERR_clear_error();
    return ok;
}

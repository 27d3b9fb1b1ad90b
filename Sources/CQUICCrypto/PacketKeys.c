// Packet protection and the key schedule (RFC 9001 §5, §6; RFC 9369 §3.3 for version 2).

#include "CQUICCrypto.h"

#include <CNIOBoringSSL.h>
#include <CNIOBoringSSL_hkdf.h>
#include <stdlib.h>
#include <string.h>

enum { max_secret = 48, iv_length = 12, sample_length = 16, mask_length = 5 };

struct kith_keys {
    EVP_AEAD_CTX aead;
    AES_KEY header_aes;
    uint8_t header_key[32];
    uint8_t iv[iv_length];
    uint8_t secret[max_secret];
    size_t secret_count;
    int suite;
    int version;
};

// The labels of a version's keys (RFC 9001 §5.1, RFC 9369 §3.3.2).
typedef struct {
    const char *key;
    const char *iv;
    const char *header;
    const char *update;
} label_set;

static const label_set *labels_of(int version) {
    static const label_set one = {"quic key", "quic iv", "quic hp", "quic ku"};
    static const label_set two = {"quicv2 key", "quicv2 iv", "quicv2 hp", "quicv2 ku"};
    return version == KITH_VERSION_2 ? &two : &one;
}

static size_t key_length(int suite) { return suite == KITH_SUITE_AES_128_GCM ? 16 : 32; }

static size_t hash_length(int suite) { return suite == KITH_SUITE_AES_256_GCM ? 48 : 32; }

static const EVP_MD *hash(int suite) { return suite == KITH_SUITE_AES_256_GCM ? EVP_sha384() : EVP_sha256(); }

static const EVP_AEAD *aead(int suite) {
    switch (suite) {
        case KITH_SUITE_AES_128_GCM: return EVP_aead_aes_128_gcm();
        case KITH_SUITE_AES_256_GCM: return EVP_aead_aes_256_gcm();
        case KITH_SUITE_CHACHA20_POLY1305: return EVP_aead_chacha20_poly1305();
        default: return NULL;
    }
}

int kith_expand_label(
    int suite, const uint8_t *secret, size_t secret_count, const char *label, uint8_t *out, size_t out_count) {
    static const char prefix[] = "tls13 ";
    const size_t prefix_count = sizeof(prefix) - 1;
    const size_t label_count = strlen(label);
    uint8_t info[2 + 1 + 255 + 1];
    if (out_count > UINT16_MAX || prefix_count + label_count > 255) return 0;
    size_t n = 0;
    info[n++] = (uint8_t)(out_count >> 8);
    info[n++] = (uint8_t)out_count;
    info[n++] = (uint8_t)(prefix_count + label_count);
    memcpy(info + n, prefix, prefix_count);
    n += prefix_count;
    memcpy(info + n, label, label_count);
    n += label_count;
    info[n++] = 0;
    return HKDF_expand(out, out_count, hash(suite), secret, secret_count, info, n);
}

// Fills everything but the header protection key, which outlives a key update.
static int set_packet_keys(kith_keys *keys) {
    uint8_t key[32];
    const label_set *labels = labels_of(keys->version);
    int ok = kith_expand_label(keys->suite, keys->secret, keys->secret_count, labels->key, key, key_length(keys->suite))
          && kith_expand_label(keys->suite, keys->secret, keys->secret_count, labels->iv, keys->iv, iv_length)
          && EVP_AEAD_CTX_init(
              &keys->aead, aead(keys->suite), key, key_length(keys->suite), EVP_AEAD_DEFAULT_TAG_LENGTH, NULL);
    OPENSSL_cleanse(key, sizeof(key));
    return ok;
}

static int set_header_key(kith_keys *keys) {
    if (keys->suite == KITH_SUITE_CHACHA20_POLY1305) return 1;
    return AES_set_encrypt_key(keys->header_key, (unsigned)key_length(keys->suite) * 8, &keys->header_aes) == 0;
}

// calloc, because BoringSSL's own allocator aligns to 8 bytes and an AEAD state is quicker at 16.
static kith_keys *allocate(int version, int suite, size_t secret_count) {
    if (aead(suite) == NULL || secret_count != hash_length(suite)) return NULL;
    kith_keys *keys = calloc(1, sizeof(kith_keys));
    if (keys == NULL) return NULL;
    EVP_AEAD_CTX_zero(&keys->aead);
    keys->version = version;
    keys->suite = suite;
    keys->secret_count = secret_count;
    return keys;
}

kith_keys *kith_keys_new(int version, int suite, const uint8_t *secret, size_t secret_count) {
    kith_keys *keys = allocate(version, suite, secret_count);
    if (keys == NULL) return NULL;
    memcpy(keys->secret, secret, secret_count);
    if (kith_expand_label(suite, secret, secret_count, labels_of(version)->header, keys->header_key, key_length(suite))
        && set_header_key(keys) && set_packet_keys(keys)) {
        return keys;
    }
    kith_keys_free(keys);
    return NULL;
}

kith_keys *kith_keys_next(const kith_keys *keys) {
    kith_keys *next = allocate(keys->version, keys->suite, keys->secret_count);
    if (next == NULL) return NULL;
    memcpy(next->header_key, keys->header_key, sizeof(next->header_key));
    const char *label = labels_of(keys->version)->update;
    if (kith_expand_label(keys->suite, keys->secret, keys->secret_count, label, next->secret, keys->secret_count)
        && set_header_key(next) && set_packet_keys(next)) {
        return next;
    }
    kith_keys_free(next);
    return NULL;
}

void kith_keys_free(kith_keys *keys) {
    if (keys == NULL) return;
    EVP_AEAD_CTX_cleanup(&keys->aead);
    OPENSSL_cleanse(keys, sizeof(kith_keys));
    free(keys);
}

void kith_keys_mask(const kith_keys *keys, const uint8_t *sample, uint8_t *mask) {
    if (keys->suite == KITH_SUITE_CHACHA20_POLY1305) {
        static const uint8_t zeros[mask_length] = {0};
        uint32_t counter = (uint32_t)sample[0] | (uint32_t)sample[1] << 8 | (uint32_t)sample[2] << 16
                         | (uint32_t)sample[3] << 24;
        CRYPTO_chacha_20(mask, zeros, mask_length, keys->header_key, sample + 4, counter);
    } else {
        uint8_t block[sample_length];
        AES_encrypt(sample, block, &keys->header_aes);
        memcpy(mask, block, mask_length);
    }
}

// The bits of the first byte that header protection covers: four in a long header, five in a short one.
static uint8_t protected_bits(uint8_t first_byte) { return first_byte & 0x80 ? 0x0f : 0x1f; }

static void make_nonce(const kith_keys *keys, uint64_t number, uint8_t *nonce) {
    memcpy(nonce, keys->iv, iv_length);
    for (int i = 0; i < 8; i++) nonce[iv_length - 1 - i] ^= (uint8_t)(number >> (8 * i));
}

static int protect(const kith_keys *keys, uint8_t *start, const kith_packet *packet) {
    if (packet->number_count < 1 || packet->number_count > 4 || packet->header_count <= packet->number_count
        || packet->number_count + packet->payload_count < 4) {
        return 0;
    }
    uint8_t nonce[iv_length], mask[mask_length];
    uint8_t *payload = start + packet->header_count;
    size_t written = 0;
    make_nonce(keys, packet->number, nonce);
    if (!EVP_AEAD_CTX_seal(
            &keys->aead, payload, &written, packet->payload_count + KITH_TAG_LENGTH, nonce, iv_length, payload,
            packet->payload_count, start, packet->header_count)) {
        return 0;
    }
    uint8_t *number = payload - packet->number_count;
    kith_keys_mask(keys, number + 4, mask);
    start[0] ^= mask[0] & protected_bits(start[0]);
    for (uint32_t i = 0; i < packet->number_count; i++) number[i] ^= mask[1 + i];
    return 1;
}

size_t kith_keys_protect(const kith_keys *keys, uint8_t *buffer, const kith_packet *packets, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (!protect(keys, buffer + packets[i].offset, &packets[i])) return i;
    }
    return count;
}

int kith_keys_unmask(const kith_keys *keys, uint8_t *packet, size_t count, size_t number_offset, kith_header *header) {
    if (count < 4 + sample_length || number_offset < 1 || number_offset > count - 4 - sample_length) return 0;
    uint8_t mask[mask_length];
    uint8_t *number = packet + number_offset;
    kith_keys_mask(keys, number + 4, mask);
    packet[0] ^= mask[0] & protected_bits(packet[0]);
    header->first_byte = packet[0];
    header->number_count = (packet[0] & 0x03) + 1;
    header->number = 0;
    for (uint8_t i = 0; i < header->number_count; i++) {
        number[i] ^= mask[1 + i];
        header->number = header->number << 8 | number[i];
    }
    return 1;
}

ptrdiff_t kith_keys_open(const kith_keys *keys, uint8_t *packet, size_t count, size_t header_count, uint64_t number) {
    if (header_count < 1 || count < KITH_TAG_LENGTH || header_count > count - KITH_TAG_LENGTH) return -1;
    uint8_t nonce[iv_length];
    uint8_t *payload = packet + header_count;
    const size_t payload_count = count - header_count - KITH_TAG_LENGTH;
    make_nonce(keys, number, nonce);
    if (!EVP_AEAD_CTX_open_gather(
            &keys->aead, payload, nonce, iv_length, payload, payload_count, payload + payload_count, KITH_TAG_LENGTH,
            packet, header_count)) {
        // The error queue belongs to the thread; others read it after their own calls.
        ERR_clear_error();
        return -1;
    }
    return (ptrdiff_t)payload_count;
}

int kith_initial_secrets(
    int version, const uint8_t *destination, size_t count, uint8_t *client, uint8_t *server) {
    static const uint8_t salt_1[] = {0x38, 0x76, 0x2c, 0xf7, 0xf5, 0x59, 0x34, 0xb3, 0x4d, 0x17,
                                     0x9a, 0xe6, 0xa4, 0xc8, 0x0c, 0xad, 0xcc, 0xbb, 0x7f, 0x0a};
    static const uint8_t salt_2[] = {0x0d, 0xed, 0xe3, 0xde, 0xf7, 0x00, 0xa6, 0xdb, 0x81, 0x93,
                                     0x81, 0xbe, 0x6e, 0x26, 0x9d, 0xcb, 0xf9, 0xbd, 0x2e, 0xd9};
    const uint8_t *salt = version == KITH_VERSION_2 ? salt_2 : salt_1;
    uint8_t initial[EVP_MAX_MD_SIZE];
    size_t initial_count = 0;
    return HKDF_extract(initial, &initial_count, EVP_sha256(), destination, count, salt, sizeof(salt_1))
        && kith_expand_label(KITH_SUITE_AES_128_GCM, initial, initial_count, "client in", client, 32)
        && kith_expand_label(KITH_SUITE_AES_128_GCM, initial, initial_count, "server in", server, 32);
}

int kith_retry_tag(int version, const uint8_t *pseudo_packet, size_t count, uint8_t *tag) {
    static const uint8_t key_1[] = {0xbe, 0x0c, 0x69, 0x0b, 0x9f, 0x66, 0x57, 0x5a,
                                    0x1d, 0x76, 0x6b, 0x54, 0xe3, 0x68, 0xc8, 0x4e};
    static const uint8_t nonce_1[] = {0x46, 0x15, 0x99, 0xd3, 0x5d, 0x63, 0x2b, 0xf2, 0x23, 0x98, 0x25, 0xbb};
    static const uint8_t key_2[] = {0x8f, 0xb4, 0xb0, 0x1b, 0x56, 0xac, 0x48, 0xe2,
                                    0x60, 0xfb, 0xcb, 0xce, 0xad, 0x7c, 0xcc, 0x92};
    static const uint8_t nonce_2[] = {0xd8, 0x69, 0x69, 0xbc, 0x2d, 0x7c, 0x6d, 0x99, 0x90, 0xef, 0xb0, 0x4a};
    const uint8_t *key = version == KITH_VERSION_2 ? key_2 : key_1;
    const uint8_t *nonce = version == KITH_VERSION_2 ? nonce_2 : nonce_1;
    EVP_AEAD_CTX context;
    EVP_AEAD_CTX_zero(&context);
    size_t written = 0;
    int ok = EVP_AEAD_CTX_init(
                 &context, EVP_aead_aes_128_gcm(), key, sizeof(key_1), EVP_AEAD_DEFAULT_TAG_LENGTH, NULL)
          && EVP_AEAD_CTX_seal(
                 &context, tag, &written, KITH_TAG_LENGTH, nonce, sizeof(nonce_1), NULL, 0, pseudo_packet, count);
    EVP_AEAD_CTX_cleanup(&context);
    return ok && written == KITH_TAG_LENGTH;
}

int kith_hmac(const uint8_t *key, size_t key_count, const uint8_t *data, size_t count, uint8_t *out) {
    unsigned int written = 0;
    return HMAC(EVP_sha256(), key, key_count, data, count, out, &written) != NULL && written == 32;
}

int kith_equal(const uint8_t *one, const uint8_t *other, size_t count) { return CRYPTO_memcmp(one, other, count) == 0; }

void kith_zero(void *bytes, size_t count) { OPENSSL_cleanse(bytes, count); }

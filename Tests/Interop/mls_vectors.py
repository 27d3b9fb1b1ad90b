"""Verifies MLS test vectors of Kith's making with the package rfc9420.

    mls_vectors.py KIND FILE

Prints what failed, and at the end one line of JSON with the number of cases that passed and failed. The exit status is
1 when a case failed.
"""

import json
import sys

from rfc9420.backends.crypto.default_hpke import DefaultCryptoProvider
from rfc9420.crypto.hpke_labels import decrypt_with_label, encrypt_with_label
from rfc9420.group.mls_group.processing import MLSGroup
from rfc9420.messages.data_structures import GroupContext, PreSharedKeyID, PSKType, Welcome
from rfc9420.messages.key_packages import KeyPackage
from rfc9420.messages.messages import derive_psk_secret
from rfc9420.protocol.schedule.key_schedule import KeySchedule
from rfc9420.protocol.tree import tree_math
from rfc9420.protocol.tree.ratchet_tree import RatchetTree
from rfc9420.protocol.tree.secret_tree import SecretTree


def same(part, one, other):
    if one != other:
        raise AssertionError(f"{part} differs")


def data(case, name):
    return bytes.fromhex(case[name])


def crypto_of(case):
    return DefaultCryptoProvider(case["cipher_suite"])


def tree_of(content, crypto):
    tree = RatchetTree(crypto)
    tree.load_full_tree_from_welcome_bytes(content)
    return tree


def tree_math_case(case):
    leaves = case["n_leaves"]
    same("n_nodes", tree_math.node_width(leaves), case["n_nodes"])
    same("root", tree_math.root(leaves), case["root"])
    for node in range(case["n_nodes"]):
        if node % 2 == 1:
            same("left", tree_math.left(node), case["left"][node])
            same("right", tree_math.right(node, leaves), case["right"][node])
        if node != case["root"]:
            same("parent", tree_math.parent(node, leaves), case["parent"][node])
            same("sibling", tree_math.sibling(node, leaves), case["sibling"][node])


def crypto_basics_case(case):
    crypto = crypto_of(case)
    part = case["expand_with_label"]
    out = crypto.expand_with_label(data(part, "secret"), part["label"].encode(), data(part, "context"), part["length"])
    same("expand_with_label", out, data(part, "out"))
    part = case["derive_secret"]
    same("derive_secret", crypto.derive_secret(data(part, "secret"), part["label"].encode()), data(part, "out"))
    part = case["derive_tree_secret"]
    generation = part["generation"].to_bytes(4, "big")
    out = crypto.expand_with_label(data(part, "secret"), part["label"].encode(), generation, part["length"])
    same("derive_tree_secret", out, data(part, "out"))
    part = case["sign_with_label"]
    label, content = part["label"].encode(), data(part, "content")
    same("signature key", crypto.signature_public_from_private(data(part, "priv")), data(part, "pub"))
    crypto.verify_with_label(data(part, "pub"), label, content, data(part, "signature"))
    own = crypto.sign_with_label(data(part, "priv"), label, content)
    crypto.verify_with_label(data(part, "pub"), label, content, own)
    part = case["encrypt_with_label"]
    label, context, plaintext = part["label"].encode(), data(part, "context"), data(part, "plaintext")
    own = encrypt_with_label(crypto, data(part, "pub"), label, context, b"", plaintext)
    for output, sealed in ((data(part, "kem_output"), data(part, "ciphertext")), own):
        opened = decrypt_with_label(crypto, data(part, "priv"), output, label, context, b"", sealed)
        same("encrypt_with_label", opened, plaintext)


def secret_tree_case(case):
    crypto = crypto_of(case)
    part = case["sender_data"]
    sample = data(part, "ciphertext")[: crypto.kdf_hash_len()]
    secret = data(part, "sender_data_secret")
    same("sender data key", crypto.expand_with_label(secret, b"key", sample, crypto.aead_key_size()), data(part, "key"))
    nonce = crypto.expand_with_label(secret, b"nonce", sample, crypto.aead_nonce_size())
    same("sender data nonce", nonce, data(part, "nonce"))
    tree = SecretTree(data(case, "encryption_secret"), crypto, len(case["leaves"]))
    for leaf, generations in enumerate(case["leaves"]):
        for step in generations:
            for kind, keys in (("handshake", tree.handshake_for), ("application", tree.application_for)):
                key, nonce, _ = keys(leaf, step["generation"])
                same(f"{kind} key", key, data(step, f"{kind}_key"))
                same(f"{kind} nonce", nonce, data(step, f"{kind}_nonce"))


def key_schedule_case(case):
    crypto = crypto_of(case)
    secret = data(case, "initial_init_secret")
    for number, epoch in enumerate(case["epochs"]):
        context = GroupContext(
            data(case, "group_id"), number, data(epoch, "tree_hash"), data(epoch, "confirmed_transcript_hash"),
            cipher_suite_id=case["cipher_suite"])
        same("group_context", context.serialize(), data(epoch, "group_context"))
        schedule = KeySchedule(secret, data(epoch, "commit_secret"), context, data(epoch, "psk_secret"), crypto)
        for name in ("joiner_secret", "welcome_secret", "init_secret", "sender_data_secret", "encryption_secret",
                     "exporter_secret", "epoch_authenticator", "external_secret", "confirmation_key",
                     "membership_key", "resumption_psk"):
            same(name, getattr(schedule, name), data(epoch, name))
        same("external_pub", crypto.derive_key_pair(schedule.external_secret)[1], data(epoch, "external_pub"))
        part = epoch["exporter"]
        # The package leaves out the hash over the context (RFC 9420 §8.5).
        context = crypto.hash(data(part, "context"))
        exported = schedule.export(part["label"].encode(), context, part["length"])
        same("exporter", exported, data(part, "secret"))
        secret = schedule.init_secret


def psk_secret_case(case):
    psks = case["psks"]
    ids = [PreSharedKeyID(PSKType.EXTERNAL, psk_id=data(one, "psk_id"), psk_nonce=data(one, "psk_nonce")) for one in psks]
    secret = derive_psk_secret(crypto_of(case), ids, [data(one, "psk") for one in psks])
    same("psk_secret", secret, data(case, "psk_secret"))


def tree_validation_case(case):
    tree = tree_of(data(case, "tree"), crypto_of(case))
    for node in range(tree.node_width()):
        same(f"resolution of {node}", tree.resolve_indices(node), case["resolutions"][node])
        same(f"hash of {node}", tree.get_node(node).hash, bytes.fromhex(case["tree_hashes"][node]))
    tree.verify_parent_hash_chains()
    same("encoding", tree.serialize_full_tree_for_welcome(), data(case, "tree"))


# The head of an MLSMessage: the version and the wire format.
HEAD = 4


def passive_client_case(case):
    crypto = crypto_of(case)
    psks = {bytes.fromhex(one["psk_id"]): bytes.fromhex(one["psk"]) for one in case["external_psks"]}
    group = MLSGroup.from_welcome(
        Welcome.deserialize(data(case, "welcome")[HEAD:]), data(case, "init_priv"), crypto,
        key_package=KeyPackage.deserialize(data(case, "key_package")[HEAD:]),
        encryption_private_key=data(case, "encryption_priv"),
        welcome_psk_resolver=lambda id: psks.get(id.psk_id))
    same("initial_epoch_authenticator", group.get_epoch_authenticator(), data(case, "initial_epoch_authenticator"))


KINDS = {
    "tree-math": tree_math_case,
    "crypto-basics": crypto_basics_case,
    "secret-tree": secret_tree_case,
    "key-schedule": key_schedule_case,
    "psk_secret": psk_secret_case,
    "tree-validation": tree_validation_case,
    "passive-client-welcome": passive_client_case,
}


def main(kind, path):
    passed = failed = 0
    with open(path) as file:
        cases = json.load(file)
    for number, case in enumerate(cases):
        try:
            KINDS[kind](case)
            passed += 1
        except Exception as error:  # whatever the package throws, the case did not verify
            failed += 1
            print(f"{kind}[{number}], suite {case.get('cipher_suite', 0)}: {type(error).__name__}: {error}")
    print(json.dumps({"passed": passed, "failed": failed}))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

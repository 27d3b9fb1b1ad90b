"""A certificate for localhost, signed by itself: `certificate.py FOLDER FROM TO p256|ed25519`, valid from and to so many days from now.

Writes FOLDER/chain.pem and FOLDER/key.pem, and prints the public key.
"""

import datetime
import json
import pathlib
import sys

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

folder, begin, end, kind = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
key = ed25519.Ed25519PrivateKey.generate() if kind == "ed25519" else ec.generate_private_key(ec.SECP256R1())
now = datetime.datetime.now(datetime.timezone.utc)
name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
certificate = (
    x509.CertificateBuilder()
    .subject_name(name)
    .issuer_name(name)
    .public_key(key.public_key())
    .serial_number(x509.random_serial_number())
    .not_valid_before(now + datetime.timedelta(days=begin))
    .not_valid_after(now + datetime.timedelta(days=end))
    .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
    .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    .sign(key, None if kind == "ed25519" else hashes.SHA256())
)
(folder / "chain.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
(folder / "key.pem").write_bytes(
    key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
)
public = key.public_key()
raw = public.public_bytes_raw().hex() if kind == "ed25519" else ""
print(json.dumps({"key": raw}), flush=True)

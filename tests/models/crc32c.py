"""CRC-32C, one byte at a time: a model for tests, far too slow for anything else."""

_POLYNOMIAL = 0x82F63B78


def _after_byte(register: int) -> int:
    for _ in range(8):
        register = register >> 1 ^ (_POLYNOMIAL if register & 1 else 0)
    return register


_TABLE = [_after_byte(byte) for byte in range(256)]


def crc32c(data: bytes, crc: int = 0) -> int:
    """The checksum of `data`, or of A + `data` where `crc` is the checksum of A."""
    register = crc ^ 0xFFFFFFFF
    for byte in data:
        register = _TABLE[(register ^ byte) & 0xFF] ^ register >> 8
    return register ^ 0xFFFFFFFF

"""Names in place of names: the same for the same, of the same form, and nobody's.

A pseudonym is an HMAC of what it stands for. Whoever has the key can find out which names are
behind them by trying; nobody else can.
"""

import hashlib
import hmac
import ipaddress

SECRET = "masked"
_NETWORKS = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "0.0.0.0/0")


class Pseudonyms:
    def __init__(self, key: bytes) -> None:
        self._key = key
        self._networks = [ipaddress.IPv4Network(network) for network in _NETWORKS]

    def name(self, prefix: str, text: str) -> str:
        """``person-3f2a91c0de``: fit for the name of a Kubernetes object, too."""
        return f"{prefix}-{self._hex(prefix, text, 10)}"

    def mail(self, text: str) -> str:
        return f"{self.name('mail', text.replace('%40', '@').lower())}@masked.invalid"

    def host(self, text: str) -> str:
        return f"{self.name('host', text.lower())}.masked.invalid"

    def digits(self, text: str) -> str:
        """As many digits."""
        number = int(self._hex("digits", text, 32), 16)
        return f"{number % 10 ** len(text):0{len(text)}}"

    def account(self, text: str) -> str:
        if text.isdecimal() and text.isascii():
            return self.digits(text)
        if len(text) == 36 and text.count("-") == 4:
            return self.uuid(text)
        return self.name("account", text)

    def uuid(self, text: str) -> str:
        digits = self._hex("uuid", text.lower(), 32)
        return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))

    def resource(self, text: str) -> str:
        """``i-0123456789abcdef0``, ``vol-...``: the kind stays."""
        kind, _, number = text.rpartition("-")
        return f"{kind}-{self._hex('resource', text, len(number))}"

    def mac(self, text: str) -> str:
        digits = self._hex("mac", text.lower().replace("-", ":"), 10)
        return ":".join(("02", *(digits[i : i + 2] for i in range(0, 10, 2))))

    def address(self, text: str) -> str:
        """An address of the same network (10.0.0.0/8 and so on); what is none, or stands for the
        machine itself, as it is. No two addresses of a network get the same one."""
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            return text
        if address.is_loopback or address.is_unspecified or address.is_link_local:
            return text
        if isinstance(address, ipaddress.IPv6Address):
            return str(
                ipaddress.IPv6Address(int("fd" + self._hex("address", str(address), 30), 16))
            )
        network = next(network for network in self._networks if address in network)
        first = int(network.network_address)
        host = self._shuffled(int(address) - first, (32 - network.prefixlen) // 2)
        return str(ipaddress.IPv4Address(first + host))

    def _shuffled(self, number: int, half: int) -> int:
        """A number of twice ``half`` bits for another, one for one (a Feistel network)."""
        mask = (1 << half) - 1
        left, right = number >> half, number & mask
        for turn in range(4):
            mixed = int(self._hex("address", f"{half} {turn} {right}", 8), 16) & mask
            left, right = right, left ^ mixed
        return left << half | right

    def _hex(self, kind: str, text: str, length: int) -> str:
        message = f"{kind}\0{text}".encode(errors="surrogatepass")
        return hmac.new(self._key, message, hashlib.sha256).hexdigest()[:length]

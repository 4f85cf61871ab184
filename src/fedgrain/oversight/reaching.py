"""Reach the server as Flower's HTTP client does: directly, or through the proxy it would take."""

from __future__ import annotations

import http.client
import socket
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass


def proxy_for(host: str) -> str | None:
    """Return the HTTP proxy that ``https_proxy`` names, unless ``no_proxy`` excludes the host."""
    found = getproxies()
    proxy = found.get("https") or found.get("all")
    return None if proxy is None or proxy_bypass(host) else proxy


def reached(host: str, port: int, seconds: float) -> socket.socket:
    """Return a connection to the server; a proxy must let it through unopened (CONNECT)."""
    if (proxy := proxy_for(host)) is None:
        return socket.create_connection((host, port), seconds)
    place = urlsplit(proxy if "//" in proxy else f"//{proxy}")
    tunnel = http.client.HTTPConnection(place.hostname or "", place.port, timeout=seconds)
    tunnel.set_tunnel(host, port)
    tunnel.connect()
    return tunnel.sock

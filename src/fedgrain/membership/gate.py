"""The gate: nginx in front of the SuperLink, the only part reachable from outside.

It requires the certificate of a registered site, accepts only that site's own key, and forwards
only the calls of a SuperNode: never the Control and the Runtime API, which have no passwords.
"""

from __future__ import annotations

import base64
import ipaddress
import os
from collections.abc import Mapping

from fedgrain.deployment.certificates import flower_bytes
from fedgrain.deployment.key_record import Member, Record
from fedgrain.membership.signing import FAB

FILE, STATE = "nginx.conf", "gate"  # its rules; its process id, temporary files and log
# what a SuperNode with a registered key calls (flwr.supernode.fleet_http_connection of 1.41)
CALLS = (
    "activate-node", "deactivate-node", "send-node-heartbeat", "pull-messages", "push-messages",
    "get-run", "get-fab", "push-object", "pull-object", "confirm-message-received",
)  # fmt: skip
_BODY = "16m"  # Flower cuts arrays into pieces of 5 MiB

CONFIG = """\
# Made by fedgrain flower; do not edit: add, remove and renew overwrite it.
# Start it as an ordinary user: nginx -e stderr -p THIS_FOLDER -c nginx.conf
daemon off;
{user}worker_processes 1;
worker_shutdown_timeout 10s;
pid {state}/nginx.pid;
error_log stderr error;
events {{ worker_connections 512; }}

http {{
    server_tokens off;
    client_body_temp_path {state}/body;
    proxy_temp_path {state}/proxy;
    fastcgi_temp_path {state}/fastcgi;
    uwsgi_temp_path {state}/uwsgi;
    scgi_temp_path {state}/scgi;
    default_type application/octet-stream;
    map_hash_bucket_size 1024;

    # what was refused, one line each (rotate it as any log)
    map $status $refused {{ ~^[23] 0; default 1; }}
    log_format refused '$time_iso8601 $remote_addr $status "$request" "$ssl_client_s_dn"';
    access_log {state}/refused.log refused if=$refused;

    ssl_certificate certificates/server.crt;
    ssl_certificate_key certificates/server.key;
    ssl_protocols TLSv1.3;
    ssl_session_cache off;
    ssl_session_tickets off;

    client_header_timeout 15s;
    client_body_timeout 60s;
    send_timeout 60s;
    keepalive_timeout 60s;
    reset_timedout_connection on;
    client_max_body_size {body};
    limit_conn_zone $binary_remote_addr zone=address:1m;

    # certificates that open the gate, and the one key each site may use
    map $ssl_client_serial $site {{
        default "";
{serials}    }}
    map $site $site_key {{
        default "-";
{keys}    }}

    upstream superlink {{
        server 127.0.0.1:{link_port};
        keepalive 16;
    }}

    server {{  # for the sites
{listens}        ssl_client_certificate certificates/ca.crt;
        ssl_verify_client on;
        ssl_verify_depth 1;
        limit_conn address 64;

        location / {{ return 404; }}

        location ~ ^/v1/fleet/({calls})$ {{
            if ($request_method != POST) {{ return 405; }}
            if ($site = "") {{ return 401; }}
            if ($http_flwr_public_key != $site_key) {{ return 401; }}
            proxy_pass https://superlink/v1/fleet/$1;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header Host localhost;
            proxy_ssl_trusted_certificate certificates/ca.crt;
            proxy_ssl_verify on;
            proxy_ssl_name localhost;
            proxy_ssl_protocols TLSv1.3;
            proxy_connect_timeout 5s;
            proxy_send_timeout 60s;
            proxy_read_timeout 120s;
            proxy_next_upstream off;
        }}
    }}

    server {{  # for the SuperLink: the app and its signature
        listen 127.0.0.1:{hub_port} ssl;
        location / {{ return 404; }}
        location = /hub/fetch-fab {{
            default_type application/json;
            return 200 '{answer}';
        }}
        location = /{fab} {{ root .; }}
    }}
}}
"""


def gate_config(record: Record, answer: str) -> str:
    """Return nginx's rules; paths in them are relative to the folder it is started with."""
    members = {name: member for name, member in record.members.items() if member.key}
    return CONFIG.format(
        user="user root;  # made by root; better start everything as an ordinary user\n"
        if os.geteuid() == 0
        else "",
        state=STATE,
        body=_BODY,
        serials="".join(
            f'        "{serial}" "{name}";\n'
            for name, member in members.items()
            for serial in member.serials
        ),
        keys=_keys(members),
        link_port=record.link_port,
        hub_port=record.hub_port,
        listens="".join(f"        listen {place} ssl;\n" for place in _listens(record)),
        calls="|".join(CALLS),
        answer=answer,
        fab=FAB,
    )


def _keys(members: Mapping[str, Member]) -> str:
    """Return each site's key as its SuperNode sends it in ``flwr-public-key``."""
    return "".join(
        f'        "{name}" "{base64.b64encode(flower_bytes(member.key)).decode("ascii")}";\n'
        for name, member in members.items()
    )


def _listens(record: Record) -> list[str]:
    """Return where the gate listens: only on loopback if the sites are on this machine."""
    if record.host == "localhost":
        return [f"127.0.0.1:{record.port}"]
    try:
        address = ipaddress.ip_address(record.host)
    except ValueError:
        return [f"0.0.0.0:{record.port}"]
    if address.is_loopback:
        return [record.address]
    return [f"[::]:{record.port}"] if address.version == 6 else [f"0.0.0.0:{record.port}"]

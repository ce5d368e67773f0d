"""What fetching a model costs: 304s and downloads compared with nginx, and 200 waiting polls.

nginx serves the very file of the daemon's store, by sendfile.
"""

from __future__ import annotations

import re
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

import httpx
import psutil

from bench.daemon import Served, mlp, served, wait_until
from bench.measuring import cpu_s, free_port, status_of
from bench.needs import CURL, NGINX, WRK
from bench.table import Row

LARGE = (5000, 5000, 10)
"""An MLP of 100 MB."""
SECONDS = 5
DOWNLOADS = 9
POLLS = 200
PATH = "/v1/models/{}/latest/model.onnx"
SETTINGS = """
daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/log; user root;
events {{}}
http {{
  access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000;
  client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};
  uwsgi_temp_path {folder}; scgi_temp_path {folder};
  server {{ listen 127.0.0.1:{port}; root {root}; }}
}}
"""
NEEDS = (NGINX, WRK, CURL)
SMALLEST = {"LARGE": (100, 100, 10), "SECONDS": 1, "DOWNLOADS": 1, "POLLS": 10}


def run() -> list[Row]:
    """Every figure with nginx's of the same run, if nginx has one."""
    with served() as daemon:
        daemon.register("small", mlp(784, 128, 10))
        daemon.register("large", mlp(*LARGE))
        with nginx(daemon) as url:
            rows = [*unchanged(daemon, url), downloads(daemon, url)]
        return [*rows, *waiting(daemon)]


def unchanged(daemon: Served, nginx_url: str) -> list[Row]:
    """Conditional requests for a known file: latency on one connection, rate on eight."""
    ours, theirs = daemon.url + PATH.format("small"), f"{nginx_url}/{stored(daemon, 'small')}"
    lone = [wrk(daemon, url, connections=1) for url in (ours, theirs)]
    many = [wrk(daemon, url, connections=8) for url in (ours, theirs)]
    return [
        {
            "what": "304, p50, ms",
            "honed": lone[0][0],
            "nginx": lone[1][0],
            "ratio": lone[0][0] / lone[1][0],
            "must reach": "≤ 2 ms",
        },
        {
            "what": "304, requests/s, one core each",
            "honed": many[0][1],
            "nginx": many[1][1],
            "ratio": many[0][1] / many[1][1],
            "must reach": "≥ 1,500",
        },
    ]


def downloads(daemon: Served, nginx_url: str) -> Row:
    """Downloads of the 100 MB model, in turn; medians."""
    ours, theirs = daemon.url + PATH.format("large"), f"{nginx_url}/{stored(daemon, 'large')}"
    pairs = [(download(daemon, ours), download(daemon, theirs)) for _ in range(DOWNLOADS)]
    honed, nginx_ = (median(times) for times in zip(*pairs, strict=True))
    return {
        "what": "100 MB model, MB/s",
        "honed": honed,
        "nginx": nginx_,
        "ratio": honed / nginx_,
        "must reach": "ratio ≥ 0.7",
    }


def waiting(daemon: Served) -> list[Row]:
    """Two hundred polls: memory, processor, and the time until the last is answered."""
    daemon.upload("small", x=[[0.0] * 784] * 64, label=[0] * 64, split="train")
    number = daemon.train("small", epochs=1, ignore_policy=True)["version"]
    aliases = "/v1/models/small/aliases/latest"
    daemon.http.put(aliases, json={"version": 1})
    process = psutil.Process(daemon.process.pid)
    with ExitStack() as stack:
        for poll in polls(daemon, count=20, wait_s=0.01):
            poll.recv(65536)
            poll.close()
        memory = process.memory_info().rss
        rest = busy_s(process)
        open_polls = [stack.enter_context(poll) for poll in polls(daemon, count=POLLS, wait_s=300)]
        wait_until(lambda: len(process.net_connections()) >= POLLS, "all polls to wait")
        held, busy = process.memory_info().rss - memory, busy_s(process)
        began = time.perf_counter()
        daemon.http.put(aliases, json={"version": number})
        last = seconds_until_all_answer(open_polls, began)
    return [
        {"what": "200 polls, MB", "honed": held / 2**20, "must reach": "≤ 10 MB"},
        {
            "what": f"200 polls, CPU s in {SECONDS} s (none waiting: {rest:.2f})",
            "honed": busy,
            "must reach": "none measurable",
        },
        {
            "what": "200 polls, promotion to last answer, ms",
            "honed": last * 1000,
            "must reach": "≤ 200",
        },
    ]


@contextmanager
def nginx(daemon: Served) -> Iterator[str]:
    """nginx with one worker on the daemon's files; yields its address."""
    with tempfile.TemporaryDirectory() as folder:
        port, settings = free_port(), Path(folder) / "nginx.conf"
        root = daemon.data_dir / "files"
        settings.write_text(SETTINGS.format(folder=folder, port=port, root=root))
        process = subprocess.Popen(["nginx", "-c", str(settings), "-e", f"{folder}/log"])
        url = f"http://127.0.0.1:{port}"
        try:
            wait_until(lambda: status_of(process, url), "nginx to answer")
            yield url
        finally:
            process.terminate()
            process.wait()


def stored(daemon: Served, name: str) -> str:
    """The path of a model's latest file below the store's folder."""
    sha256: str = daemon.http.get(f"/v1/models/{name}/latest").json()["sha256"]
    return f"{sha256[:2]}/{sha256}"


def wrk(daemon: Served, url: str, *, connections: int) -> tuple[float, float]:
    """Median latency in ms, and requests per second, of conditional requests."""
    token = f"Authorization: Bearer {daemon.token}"
    tag = httpx.head(url, headers={"Authorization": f"Bearer {daemon.token}"}).headers["etag"]
    condition = f"If-None-Match: {tag}"
    options = ["-t1", f"-c{connections}", f"-d{SECONDS}", "--latency", "-H", token, "-H", condition]
    said = subprocess.run(["wrk", *options, url], capture_output=True, text=True, check=True).stdout
    assert "Non-2xx" not in said, said
    assert "Socket errors" not in said, said
    half = re.search(r"50%\s+([\d.]+)(us|ms)", said)
    rate = re.search(r"Requests/sec:\s+([\d.]+)", said)
    assert half is not None, said
    assert rate is not None, said
    return float(half[1]) / (1000 if half[2] == "us" else 1), float(rate[1])


def download(daemon: Served, url: str) -> float:
    """MB/s."""
    options = ["-s", "-o", "/dev/null", "-w", "%{http_code} %{speed_download}"]
    token = ["-H", f"Authorization: Bearer {daemon.token}"]
    said = subprocess.run(["curl", *options, *token, url], capture_output=True, check=True).stdout
    status, speed = said.split()
    assert status == b"200", said
    return float(speed) / 1e6


def polls(daemon: Served, *, count: int, wait_s: float) -> Iterator[socket.socket]:
    """Connections that each wait for a newer model."""
    path = PATH.format("small")
    tag = daemon.http.head(path).headers["etag"]
    host, _, port = daemon.url.removeprefix("http://").partition(":")
    request = (
        f"GET {path}?wait={wait_s} HTTP/1.1\r\nHost: {host}:{port}\r\n"
        f"Authorization: Bearer {daemon.token}\r\nIf-None-Match: {tag}\r\n\r\n"
    )
    for _ in range(count):
        poll = socket.create_connection((host, int(port)), timeout=30)
        poll.sendall(request.encode())
        yield poll


def busy_s(process: psutil.Process) -> float:
    """Processor time that it takes in SECONDS."""
    before = cpu_s(process)
    time.sleep(SECONDS)
    return cpu_s(process) - before


def seconds_until_all_answer(open_polls: list[socket.socket], began: float) -> float:
    """Seconds until the first bytes of the last answer arrive. All must be the model."""
    heads = {poll.recv(1024).partition(b"\r\n")[0] for poll in open_polls}
    took = time.perf_counter() - began
    assert heads == {b"HTTP/1.1 200 OK"}, heads
    return took

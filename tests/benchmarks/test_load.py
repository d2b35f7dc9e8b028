"""The load generator: what it sends and what it counts."""

import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from benchmarks import load


class Shop(BaseHTTPRequestHandler):
    """Sells two, refuses the third with a page, and breaks at the fourth."""

    protocol_version = "HTTP/1.1"
    asked: list[str]

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.asked.append(body)
        status = {1: 302, 2: 302, 3: 409}.get(len(self.asked), 500)
        text = b"sold out" if status == 409 else b""
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_arguments):
        pass


@pytest.fixture
def url():
    Shop.asked = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Shop) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def plan(url, **facts):
    form = {"request_key": load.FRESH, "name": "一 & 二"}
    return load.Plan(url, [load.request("POST", url + "/order/", cookies={"a": "b"}, form=form)], **facts)


def test_every_answer_is_counted_by_status_and_content(url):
    report = load.run(plan(url, connections=1, count=4, wanted=[302, 409], parts=["sold out"]))

    assert report.statuses == {302: 2, 409: 1, 500: 1}
    assert (report.answers, report.lacking, load.refusals(report, [302, 409])) == (4, 2, 1)
    assert report.example.startswith("HTTP/1.1 302")


def test_every_request_has_a_key_of_its_own(url):
    load.run(plan(url, connections=2, count=5))

    keys = Counter(body.partition("&")[0] for body in Shop.asked)
    assert len(keys) == 5
    assert all(len(key) == len("request_key=") + 32 for key in keys)
    assert {body.partition("&")[2] for body in Shop.asked} == {"name=%E4%B8%80+%26+%E4%BA%8C"}


def test_time_ends_a_plan_too(url):
    report = load.run(plan(url, connections=1, count=10**9, seconds=0.1))

    assert 0 < report.answers < 10**9

"""The review: answers that are kept, and a server that gives nothing away."""

import csv
import http.client
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fedgrain.errors import FedgrainError
from fedgrain.folders.folder import read_tree
from fedgrain.refinement.review_session import Reviewing, ReviewSession


def read(path):
    return list(csv.DictReader(io.StringIO(path.read_text())))


GAINS = {"kite": 0.2, "owl": 0.9}


@pytest.fixture
def refined(made, tmp_path):
    """A manifest with hand-made proposals for the volunteers' birds; mammals have none."""
    given = read(made / "site/images.csv")
    rows = ["path,label,client,split,source,given_label,given_annotator,proposal,probability,gain"]
    for row in given:
        truth = row["path"].split("-")[1]
        open_bird = row["label"] == "bird" and row["split"] == "train"
        told = f"{truth},0.75,{GAINS[truth]}" if open_bird else ",,"
        path = made / "site" / row["path"]
        rows.append(
            f"{path},{row['label']},{row['client']},{row['split']},given,{row['label']},,{told}"
        )
    file = tmp_path / "refined.csv"
    file.write_text("\n".join(rows) + "\n")
    (tmp_path / "taxonomy.csv").write_bytes((made / "site/taxonomy.csv").read_bytes())
    return file


def session_of(refined, annotator="Ana", **more):
    asked = Reviewing(refined, refined.with_name("reviewed.csv"), annotator, **more)
    return ReviewSession(asked, read_tree(refined.parent, None))


def written(refined):
    return {row["path"].split("/")[-1]: row for row in read(refined.with_name("reviewed.csv"))}


def test_the_most_useful_group_comes_first(refined):
    groups = session_of(refined).batch()
    assert [group["proposal"] for group in groups] == ["owl", "kite", ""]
    assert groups[2]["given"] == "mammal"  # coarse as well, but the model says nothing


def test_answers_are_kept_in_order_and_taken_back(refined):
    session = session_of(refined)
    first, second = (item["row"] for item in session.batch()[0]["items"][:2])
    session.answer(first, "accept")
    session.answer(second, "pick", "CAT")  # not below bird: people may correct
    session.answer(second, "unsure")
    assert session.numbers() == {
        "images": 24, "done": 2, "unsure": 1, "finer": 1, "corrected": 0, "leaves": 1,
        "agreed": 1, "asked": 1, "undoable": True,
    }  # fmt: skip
    again = session_of(refined, "Bo")  # another person goes on, after a restart
    assert again.item(second)["answer"] == "unsure"
    assert again.undo()["answer"] == "pick"
    again.write()
    rows = written(refined)
    owl, other = (rows[Path(again.rows[number]["path"]).name] for number in (first, second))
    assert (owl["label"], owl["annotator"], owl["source"]) == ("owl", "Ana", "review")
    assert (other["label"], other["given_label"]) == ("cat", "bird")
    assert sum(row["source"] == "review" for row in rows.values()) == 2
    assert again.undo() and again.undo() and again.undo() is None
    assert session_of(refined).numbers()["done"] == 0


def test_a_line_cut_off_by_a_power_cut_is_left_out_with_a_warning(refined):
    session = session_of(refined)
    number = session.batch()[0]["items"][0]["row"]
    session.answer(number, "accept")
    log = session.asked.log
    log.write_text(log.read_text() + '{"path": "half')
    with pytest.warns(UserWarning, match="1 lines are damaged"):
        again = session_of(refined)
    again.answer(again.batch()[0]["items"][0]["row"], "accept")
    with pytest.warns(UserWarning):
        assert session_of(refined).numbers()["done"] == 2


def test_names_are_found_below_the_label_first(refined):
    session = session_of(refined)
    owl = session.batch()[0]["items"][0]["row"]
    assert [node["label"] for node in session.matches("o", owl)] == ["owl", "dog"]
    assert session.matches("KI", owl)[0] == {
        "label": "kite", "name": "kite", "above": "bird", "below": True,
    }  # fmt: skip


@pytest.mark.parametrize("annotator", ["", " ", "(model, level 1)"])
def test_an_annotator_needs_a_name(refined, annotator):
    with pytest.raises(FedgrainError, match="--annotator is your name"):
        session_of(refined, annotator)


# -- the server ----------------------------------------------------------------------------------


@pytest.fixture
def served(serving):
    return lambda file: serving(Reviewing(file, file.with_name("reviewed.csv"), "Ana"))


def request(server, path, method="GET", body=None, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=30)
    sent = {"Host": server.origin.removeprefix("http://")}
    sent |= {name.replace("_", "-"): value for name, value in headers.items()}
    connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
    for name, value in sent.items():
        connection.putheader(name, value)
    connection.endheaders(body)
    reply = connection.getresponse()
    content = reply.read()
    connection.close()
    return reply.status, reply.headers, content


def post(server, path, content, **headers):
    body = json.dumps(content).encode()
    headers = {"Content_Type": "application/json", "Content_Length": str(len(body)), **headers}
    return request(server, path, "POST", body, **headers)


def test_only_its_own_page_with_the_token_gets_anything(refined, served):
    with served(refined) as server:
        own = f"/{server.token}/"
        status, headers, page = request(server, own)
        assert status == 200 and b"<h1>refined.csv</h1>" in page
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy
        row = server.session.batch()[0]["items"][0]["row"]
        status, headers, picture = request(server, f"{own}image/{row}")
        assert status == 200 and picture.startswith(b"\xff\xd8\xff")  # drawn anew: the file is PNG
        answer = {"row": row, "answer": "accept"}
        refused = [
            request(server, "/"),
            request(server, "/state"),
            request(server, f"/{'x' * len(server.token)}/state"),
            request(server, f"/{server.token}"),
            request(server, f"{own}state", Host="evil.example"),  # DNS rebinding
            request(server, f"{own}state", Host=f"localhost:{server.server_address[1]}"),
            request(server, f"{own}state", Origin="https://evil.example"),
            request(server, f"{own}state", Origin="null"),
            request(server, f"{own}state", Sec_Fetch_Site="cross-site"),
            post(server, f"{own}answer", answer, Origin="https://evil.example"),
            post(server, "/answer", answer),
        ]
        assert [status for status, _, _ in refused] == [403] * len(refused)
        assert not any(server.token.encode() in content for _, _, content in refused)
        elsewhere = [
            "../../etc/passwd", "image/../../../etc/passwd", "image/%2e%2e/x", "image/999999",
            "image/-1", "image/1e3", "refined.csv", "image/", "nodes?text=a&row=x", "answer",
        ]  # fmt: skip
        assert {request(server, own + path)[0] for path in elsewhere} == {404}
        bad = [
            post(server, f"{own}answer", answer, Content_Type="text/plain"),
            post(server, f"{own}answer", answer, Content_Length="10001"),
            post(server, f"{own}answer", answer, Transfer_Encoding="chunked"),
            post(server, f"{own}answer", [answer]),
            post(server, f"{own}answer", {**answer, "row": True}),
            post(server, f"{own}answer", {**answer, "row": 0}),  # a full label, not in the review
            post(server, f"{own}answer", {**answer, "answer": "pick", "label": "unicorn"}),
            post(server, f"{own}answer", {**answer, "answer": "delete"}),
            request(server, f"{own}state", "PUT"),
        ]
        assert [status for status, _, _ in bad] == [415, 413, 413, 400, 400, 400, 400, 400, 501]
        assert server.session.numbers()["done"] == 0
        assert post(server, f"{own}answer", answer, Origin=server.origin)[0] == 200
        assert server.session.numbers()["done"] == 1
    assert sum(row["source"] == "review" for row in written(refined).values()) == 1


def test_links_and_files_that_are_no_images_are_not_served(refined, tmp_path, served):
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    site = tmp_path / "site"
    site.mkdir()
    (site / "link.png").symlink_to(next((refined.parent).glob("*.csv")))
    lines = ["path,label,split", "link.png,bird,train", "../secret.txt,bird,train",
             "none.png,bird,train"]  # fmt: skip
    (site / "images.csv").write_text("\n".join(lines) + "\n")
    (site / "taxonomy.csv").write_bytes((tmp_path / "taxonomy.csv").read_bytes())
    with served(site / "images.csv") as server:
        found = [request(server, f"/{server.token}/image/{number}") for number in range(3)]
        assert [status for status, _, _ in found] == [404] * 3
        assert not any(b"secret" in content for _, _, content in found[1:2])


def test_killed_in_the_middle_nothing_answered_is_lost(refined, served):
    """Every answer that the page heard of as saved is there again, and one server has the log."""
    started = subprocess.Popen(
        [sys.executable, "-m", "fedgrain.cli", "review", str(refined), "--annotator", "Ana",
         "--out", str(refined.with_name("reviewed.csv")), "--no-browser"],
        stderr=subprocess.PIPE, text=True, env={**os.environ},
    )  # fmt: skip
    try:
        line = started.stderr.readline()
        port, token = line.split("127.0.0.1:")[1].split("/")[:2]
        with pytest.raises(FedgrainError, match="another process is running"), served(refined):
            pass
        connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=60)
        connection.request("GET", f"/{token}/state")
        items = json.load(connection.getresponse())["groups"][0]["items"]
        for item in items[:3]:
            body = json.dumps({"row": item["row"], "answer": "accept"})
            headers = {"Content-Type": "application/json"}
            connection.request("POST", f"/{token}/answer", body, headers)
            assert json.load(connection.getresponse())["item"]["answer"] == "accept"
    finally:
        started.send_signal(signal.SIGKILL)
        started.wait()
        started.stderr.close()
    connection.close()
    with served(refined) as server:
        assert server.session.numbers()["done"] == 3
        rows = written(refined)  # written as soon as it starts again
        assert all(rows[Path(i["path"]).name]["annotator"] == "Ana" for i in items[:3])

"""``doctor``, ``serve``, ``settings``, ``prepare``: the house itself."""

from __future__ import annotations

import argparse
import json
from typing import Any

from core.cli.output import add_json, app, emit, note, say, settings
from core.errors import CheckFailed
from core.settings import describe


def add(commands: Any) -> None:
    doctor = add_json(
        commands.add_parser("doctor", help="every store, the model, the schema, the index: up or down, and the mend")
    )
    doctor.set_defaults(run=run_doctor)

    serve = add_json(
        commands.add_parser("serve", help="the local Milvus server of milvus.uri (started on demand anyway)")
    )
    serve.add_argument("--stop", action="store_true", help="end the server of this file")
    serve.add_argument("--status", action="store_true", help="only say whether it runs")
    serve.set_defaults(run=run_serve)

    shown = add_json(
        commands.add_parser("settings", help="the effective settings without secrets, and their fingerprint")
    )
    shown.add_argument("--markdown", action="store_true", help="the reference of every key, as in docs/SETTINGS.md")
    shown.set_defaults(run=run_settings)

    shipped = add_json(
        commands.add_parser("ship-vectors", help="write the active index's vectors beside its documents, to ship them")
    )
    shipped.add_argument("--evaluation", action="store_true", help="of the evaluation's index instead")
    shipped.set_defaults(run=run_ship_vectors)

    prepare = add_json(
        commands.add_parser("prepare", help="what a first start needs: schema, recovery, the sample index once")
    )
    prepare.set_defaults(run=run_prepare)


def run_doctor(args: argparse.Namespace) -> int:
    """Exit 0 when everything can serve, 3 otherwise; the report is printed either way."""
    from core.doctor import examine

    findings = examine(settings())
    lines = [
        f"{'ok  ' if f.ok else 'DOWN'}  {f.part:<12} {f.state}" + (f"\n      → {f.mend}" if f.mend else "")
        for f in findings
    ]
    emit(args, {"ok": all(f.ok for f in findings), "findings": findings}, "\n".join(lines))
    return 0 if all(f.ok for f in findings) else 3


def run_serve(args: argparse.Namespace) -> int:
    from core.bootstrap import local_server

    server = local_server(settings())
    if args.stop:
        stopped = server.stop()
        emit(args, {"stopped": stopped}, "stopped" if stopped else "none was running")
        return 0
    if args.status:
        state = server.status()
        where = f"running on {state.uri} (pid {state.pid})" if state.running else "not running"
        emit(args, {"running": state.running, "uri": state.uri, "pid": state.pid, "since": state.since}, where)
        return 0 if state.running else 1
    address = server.ensure()
    emit(args, {"address": address}, f"serving on {address}; it ends by itself when idle")
    return 0


def run_settings(args: argparse.Namespace) -> int:
    configured = settings()
    if args.markdown:
        say(describe())
        return 0
    data = {"fingerprint": configured.fingerprint, "settings": configured.public()}
    emit(args, data, json.dumps(data, ensure_ascii=False, indent=2))
    return 0


def run_ship_vectors(args: argparse.Namespace) -> int:
    from core.bootstrap import evaluation_settings

    configured = evaluation_settings(settings()) if args.evaluation else settings()
    with app(configured) as built:
        file = built.rebuild.ship_vectors()
        emit(args, {"file": str(file)}, f"vectors written to {file}")
    return 0


def run_prepare(args: argparse.Namespace) -> int:
    """Idempotent, and quick when nothing is to be done: `make run` calls it before each start."""
    from core.cli.index import build_sample

    with app() as built:
        built.rebuild.recover()
        number = built.generations.active_number(built.settings.milvus.collection)
        if number is not None:
            emit(args, {"generation": number, "built": False}, f"index: generation {number} is active")
            return 0
        note("first start: building the index of the sample knowledge base")
        outcome = build_sample(built)
        if outcome is None:
            raise CheckFailed("the sample index could not be built; see `python -m core doctor`")
        emit(
            args, {"generation": outcome.generation, "built": True}, f"index: generation {outcome.generation} is active"
        )
    return 0

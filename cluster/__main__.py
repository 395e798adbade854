"""`python -m cluster COMMAND`: the development cluster, from the command line. The Makefile wraps it."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Callable, Sequence

from cluster import images, network
from cluster.build import PROJECT, cache_folder, ensure_programs
from cluster.errors import ClusterError
from cluster.install import install
from cluster.making import Shape
from cluster.native import Native
from cluster.provider import Provider, answering_engine, choose
from cluster.versions import PROGRAMS


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        COMMANDS[options.command](options)
    except ClusterError as error:
        print(f"cluster: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m cluster", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up", help="bring it up; fast when it is up already")
    up.add_argument("--no-dns", action="store_true", help="without DNS inside pods (saves building CoreDNS)")
    commands.add_parser("down", help="stop what was started, and remove every trace")
    commands.add_parser("status", help="what runs")
    commands.add_parser("kubeconfig", help="print the path of the admin's kubeconfig")
    commands.add_parser("env", help='print what `eval "$(make -s env)"` needs')
    up_kwok = commands.add_parser("up-kwok", help="a control plane with kwok's pretended nodes, for scale")
    up_kwok.add_argument("--nodes", type=int, default=10)
    commands.add_parser("down-kwok", help="stop it")
    load = commands.add_parser("load", help="build images and make them known to the nodes")
    load.add_argument("image", nargs="+", choices=images.RECIPES)
    commands.add_parser("install", help="build Taskyard's image and install its chart")
    commands.add_parser("image", help="build all images: by the engine that answers, or into archives")
    build = commands.add_parser("build", help="build programs into the cache")
    build.add_argument("program", nargs="+", choices=PROGRAMS)
    for verb in ("start", "stop"):
        part = commands.add_parser(
            verb, help=f"{verb} one part (native only): apiserver, etcd, node1/kubelet, …"
        )
        part.add_argument("part")
    return parser


def _up(options: argparse.Namespace) -> None:
    choose().up(dns=not options.no_dns)


def _environment(options: argparse.Namespace) -> None:
    provider = choose()
    helm = ensure_programs(["helm"])["helm"]
    network.bypass_proxies()
    for name in ("NO_PROXY", "no_proxy"):
        if name in os.environ:
            print(f"export {name}={shlex.quote(os.environ[name])}")
    print(f"export KUBECONFIG={shlex.quote(str(provider.kubeconfig))}")
    print(f"export PATH={shlex.quote(f'{provider.kubectl.parent}:{helm.parent}')}:$PATH")


def _image(options: argparse.Namespace) -> None:
    engine = answering_engine() if os.environ.get("CLUSTER", "") in ("", "kind") else None
    if engine:
        print(
            *(images.build_with_engine(engine, name, PROJECT) for name in ("operator", "task", "python")),
            sep="\n",
        )
    else:
        print(*images.build(list(images.RECIPES), cache_folder(), root=PROJECT).values(), sep="\n")


def _native(provider: Provider) -> Native:
    if not isinstance(provider, Native):
        raise ClusterError("single parts can be started and stopped in the native cluster only")
    return provider


COMMANDS: dict[str, Callable[[argparse.Namespace], None]] = {
    "up": _up,
    "down": lambda options: choose().down(),
    "status": lambda options: print(choose().status()),
    "kubeconfig": lambda options: print(choose().kubeconfig),
    "env": _environment,
    "up-kwok": lambda options: Native("kwok", Shape(nodes=0, pretended=options.nodes)).up(),
    "down-kwok": lambda options: Native("kwok").down(),
    "load": lambda options: print(*choose().provide(options.image).values(), sep="\n"),
    "image": _image,
    "install": lambda options: install(choose(), "task", "python"),
    "build": lambda options: print(
        "\n".join(str(path) for path in ensure_programs(options.program).values())
    ),
    "start": lambda options: _native(choose()).start_part(options.part),
    "stop": lambda options: _native(choose()).stop_part(options.part),
}

if __name__ == "__main__":
    sys.exit(main())

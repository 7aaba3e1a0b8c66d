"""The library that is preloaded into programs of rdma_cm (clients/tell_listen.cc). It tells when a server listens, and orders
the end of rping. rping before rdma-core 59 has a race there, on every device: its main thread destroys the event channel while
its event thread may be on the way back to rdma_get_cm_event(). That thread then ends the program with an error, or reads freed
memory, although all pings went well (rdma-core's commit f3ae6534a938, "rping: terminate CM event thread before exiting")."""

import itertools
import time

from harness import BUILD, SLOW

TELLS = BUILD / "tests" / "system" / "clients" / "tell_listen.so"
ENVIRONMENT = {"LD_PRELOAD": str(TELLS)}
_serial = itertools.count()


def start_server(case, command, namespace=None, env=None, at="listen"):
    """A server, from when it listens, and the file that told so. `at`="bind": from when it is bound. An LD_PRELOAD of `env`
    comes after ours."""
    told = case.directory / f"listens-{next(_serial)}"
    env = env or {}
    preloads = [str(TELLS), *filter(None, [env.get("LD_PRELOAD")])]
    server = case.start(command, namespace, {
        **env, "LD_PRELOAD": ":".join(preloads), "UROCE_TEST_LISTENS": str(told), "UROCE_TEST_LISTENS_AT": at})
    limit = time.monotonic() + 20 * SLOW
    while not told.exists():
        if server.process.poll() is not None:
            raise AssertionError(f"ended before it listened: {server}")
        if time.monotonic() > limit:
            raise AssertionError(f"does not listen after {20 * SLOW:.0f} s: {server}")
        time.sleep(0.01)
    return server, told

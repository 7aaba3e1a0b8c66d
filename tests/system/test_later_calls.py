#!/usr/bin/env python3
"""Calls that rdma-core has had since release 59, from programs that are linked to them, under uroce-run."""

import harness
import verbs

CLIENTS = harness.BUILD / "tests" / "system" / "clients"
NOT_OFFERED = "Operation not supported"


class LaterCalls(verbs.SharedCase):
    def lines(self, *command):
        return self.finish(self.under(*command), 60).splitlines()

    def test_verbs(self):
        self.assertEqual(
            self.lines(CLIENTS / "client_later_verbs"),
            [
                "ibv_query_port_speed: works",
                "speed 1000",
                "ibv_reg_buf_mr: works",
                "ibv_export_buf_dmabuf_fd: No data available",
                f"ibv_dm_export_dmabuf_fd: {NOT_OFFERED}",
                f"ibv_alloc_dmah: {NOT_OFFERED}",
                f"ibv_query_comp_cntr_caps: {NOT_OFFERED}",
                f"ibv_create_comp_cntr: {NOT_OFFERED}",
            ],
        )

    def test_events(self):
        lines = self.lines(CLIENTS / "client_later_cm", "events", "10.117.0.1")
        self.assertEqual(lines, ["rdma_write_cm_event: 4711", "rdma_resolve_addrinfo: port 7471"])

    def test_sockets(self):
        lines = self.lines(CLIENTS / "client_later_cm", "sockets", "10.117.0.1")
        self.assertEqual(lines, ["repoll_wait: 8 clients"])

    def test_without_epoll_of_the_c_library(self):
        self.env |= {"LD_PRELOAD": str(CLIENTS / "refuse_epoll.so")}
        self.test_events()
        self.test_sockets()


if __name__ == "__main__":
    harness.main()

// Has one connected and one datagram queue pair, tells their numbers, and stays until it is killed.
//
// Usage: guessed DEVICE PEER: the peer's IPv4 address. Its queue pair is 0x77, it sends from PSN 1000, and the
// datagrams' Q_Key is 0x1234.
#include <arpa/inet.h>

#include "side.h"

using namespace uroce;
using namespace uroce::test;

int main(int argc, char** argv) {
  in_addr peer{};
  if (argc != 3 || inet_pton(AF_INET, argv[2], &peer) != 1) die("usage: guessed DEVICE PEER");
  Side side(argv[1]);
  auto connected = side.make_qp();
  must(connected.connect({Gid::from_ipv4(ntohl(peer.s_addr)), 0x77, 1000}, {.psn = 1}));
  auto datagrams = must(side.context.create_qp(side.pd, side.cq, side.cq, {.type = QpType::ud}));
  must(datagrams.start(0x1234, 1));
  std::printf("rc %u ud %u ready\n", connected.qpn(), datagrams.qpn()), std::fflush(stdout);
  while (true) pause();
}

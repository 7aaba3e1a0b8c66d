// Attaches one datagram queue pair to multicast groups, and stays until it is killed. Tells each asynchronous event.
//
// Usage: member DEVICE [GROUP ...]
#include <arpa/inet.h>

#include <cstring>

#include "side.h"

namespace {

using namespace uroce;
using namespace uroce::test;

Gid parse(const char* text) {
  Gid gid;
  in_addr v4{};
  if (inet_pton(AF_INET, text, &v4) == 1) return Gid::from_ipv4(ntohl(v4.s_addr));
  if (inet_pton(AF_INET6, text, gid.bytes.data()) != 1) die(std::string(text) + " is no address");
  return gid;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) die("usage: member DEVICE [GROUP ...]");
  Side side(argv[1]);
  auto qp = must(side.context.create_qp(side.pd, side.cq, side.cq, {.type = QpType::ud}));
  for (int i = 2; i < argc; ++i) must(qp.attach_multicast(parse(argv[i])));
  std::puts("joined"), std::fflush(stdout);
  while (true) {
    const auto event = side.context.next_async_event(std::chrono::seconds(1));
    if (!event) continue;
    std::printf("event %d\n", static_cast<int>(event->type)), std::fflush(stdout);
  }
}

// A program with the stack and its connections inside, in one thread: a server that listens, or a client that connects
// to it and SENDs. Usage: embedded OWN_ADDRESS/PREFIX [SERVER_ADDRESS] -- EAL_ARGUMENTS
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

#include <arpa/inet.h>
#include <uroce/uroce.h>

using namespace uroce;
constexpr uint16_t kPort = 7471;
static const std::string kText = "sent over a connection of this process";

[[noreturn]] static void die(const std::string& why) {
  std::fprintf(stderr, "embedded: %s\n", why.c_str());
  std::exit(1);
}
template <class T>
static T must(Result<T> result) {
  if (!result) die(result.error().text);
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

struct Node {
  explicit Node(Stack& stack) : context(must(stack.open("uroce0"))), manager(must(ConnectionManager::open(stack))) {}
  void bring_up(const CmId& connection) {  // to RTS, with what both sides agreed on
    for (const QpState state : {QpState::init, QpState::rtr, QpState::rts}) {
      const auto [attr, mask] = must(connection.qp_attr(state));
      must(qp.modify(attr, mask));
    }
    const Sge in = mr.sge(0, 4096);
    if (qp.post_recv({.sges = {&in, 1}}) != 0) die("the receive queue is full");
  }
  void handle(const CmEvent& event) {
    switch (event.type) {
      case CmEventType::addr_resolved: return must(id.resolve_route({}));
      case CmEventType::route_resolved: return must(id.connect({.qpn = qp.qpn()}));
      case CmEventType::connect_request:
        accepted = must(manager.adopt(event));
        bring_up(*accepted);
        return must(accepted->accept({.qpn = qp.qpn()}));
      case CmEventType::connect_response: return send();
      case CmEventType::established: return;
      case CmEventType::disconnected: done = true; return;
      default:
        die("event " + std::to_string(static_cast<int>(event.type)) + ", status " + std::to_string(event.status));
    }
  }
  void send() {
    bring_up(id);
    must(id.establish());
    const Sge out = mr.sge(0, kText.copy(bytes.data(), kText.size()));
    if (qp.post_send({.flags = SendFlag::signaled, .sges = {&out, 1}}) != 0) die("the send queue is full");
  }
  void handle(const Completion& completion) {
    if (completion.status == WcStatus::flushed) return;  // the receive of a connection that has ended
    if (completion.status != WcStatus::success)
      die("completion status " + std::to_string(static_cast<int>(completion.status)));
    if (!accepted) return must(id.disconnect());  // the client's SEND has arrived
    if (bytes.substr(0, completion.byte_len) != kText) die("the bytes differ");
    std::printf("SEND of %u bytes verified\n", completion.byte_len);
  }

  Context context;
  ConnectionManager manager;
  CmChannel channel = must(manager.create_channel());
  CmId id = must(manager.create_id(channel, PortSpace::tcp, QpType::rc));  // the client's, or the listener
  std::optional<CmId> accepted{};
  ProtectionDomain pd = must(context.create_pd());
  CompletionQueue cq = must(context.create_cq(64));
  QueuePair qp = must(context.create_qp(pd, cq, cq, {}));
  std::string bytes = std::string(4096, '\0');
  MemoryRegion mr = must(pd.register_memory(bytes.data(), bytes.size(), Access::local_write));
  bool done = false;
};

int main(int argc, char** argv) {
  const auto eal = std::find(argv, argv + argc, std::string("--"));
  if (eal == argv + argc || eal - argv < 2) die("usage: embedded OWN_ADDRESS/PREFIX [SERVER_ADDRESS] -- EAL_ARGUMENTS");
  Stack stack = must(Stack::start({eal + 1, argv + argc}, {.addresses = {argv[1]}}));
  Node node(stack);
  if (eal - argv == 2) {
    must(node.id.bind({.port = kPort}));
    must(node.id.listen(8));
    std::fputs("listening\n", stderr);
  } else {
    in_addr server{};
    if (inet_pton(AF_INET, argv[2], &server) != 1) die(std::string("no IPv4 address: ") + argv[2]);
    must(node.id.resolve_addr(std::nullopt, {Gid::from_ipv4(ntohl(server.s_addr)), kPort}, std::chrono::seconds(5)));
  }
  while (!node.done) {
    if (!stack.poll()) stack.idle(std::chrono::milliseconds(1));
    while (const auto event = node.channel.take()) node.handle(*event);
    for (Completion completion; node.cq.poll({&completion, 1}) == 1;) node.handle(completion);
  }
}

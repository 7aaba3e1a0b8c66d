// Two endpoints in one process, joined by rings: a WRITE and a SEND, their bytes checked. Arguments are the EAL's.
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <uroce/uroce.h>

using namespace uroce;

[[noreturn]] static void die(const std::string& why) {
  std::fprintf(stderr, "example: %s\n", why.c_str());
  std::exit(1);
}
template <class T>
static T must(Result<T> result) {
  if (!result) die(result.error().text);
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

struct Endpoint {
  explicit Endpoint(Result<Context> opened) : context(must(std::move(opened))) {}

  Context context;
  ProtectionDomain pd = must(context.create_pd());
  CompletionQueue cq = must(context.create_cq(64));
  QueuePair qp = must(context.create_qp(pd, cq, cq, {}));
  std::vector<unsigned char> bytes = std::vector<unsigned char>(1 << 20);
  MemoryRegion mr = must(pd.register_memory(bytes.data(), bytes.size(), Access::local_write | Access::remote_write));
};

// The next completion. Without worker lcores the engines run when we poll the stack.
static Completion wait(Stack& stack, CompletionQueue& cq) {
  Completion completion;
  while (cq.poll({&completion, 1}) == 0) stack.poll();
  if (completion.status != WcStatus::success) die("status " + std::to_string(static_cast<int>(completion.status)));
  return completion;
}

int main(int argc, char** argv) {
  Stack stack = must(Stack::start({argv + 1, argv + argc}, {.back_to_back = true}));
  Endpoint a(stack.open("uroce0")), b(stack.open("uroce1"));
  // Between machines these three travel by TCP or any other way: GID, QPN, first PSN.
  must(a.qp.connect({b.context.info().gids[0], b.qp.qpn(), 200}, {.psn = 100}));
  must(b.qp.connect({a.context.info().gids[0], a.qp.qpn(), 100}, {.psn = 200}));

  std::iota(a.bytes.begin(), a.bytes.end(), 1);
  const Sge all = a.mr.sge(0, 1 << 20), in = b.mr.sge(0, 4096);
  const SendRequest write{.opcode = WrOpcode::rdma_write,
                          .flags = SendFlag::signaled,
                          .sges = {&all, 1},
                          .remote_addr = b.mr.sge(0, 0).addr,
                          .rkey = b.mr.rkey()};
  if (a.qp.post_send(write) != 0) die("the send queue is full");
  wait(stack, a.cq);
  if (a.bytes != b.bytes) die("WRITE: the bytes differ");

  const std::string text = "placed by the receiver";
  const Sge out = a.mr.sge(0, static_cast<uint32_t>(text.copy(reinterpret_cast<char*>(a.bytes.data()), text.size())));
  if (b.qp.post_recv({.wr_id = 7, .sges = {&in, 1}}) != 0) die("the receive queue is full");
  if (a.qp.post_send({.flags = SendFlag::signaled, .sges = {&out, 1}}) != 0) die("the send queue is full");
  const Completion received = wait(stack, b.cq);
  wait(stack, a.cq);
  if (std::string(b.bytes.begin(), b.bytes.begin() + received.byte_len) != text) die("SEND: the bytes differ");
  std::printf("WRITE of %zu bytes and SEND of %u bytes verified\n", a.bytes.size(), received.byte_len);
}

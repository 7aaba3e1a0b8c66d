// Sends messages from one queue pair to another and verifies every byte. Written for libibverbs alone.
//
//   verifier FROM TO [--messages N] [--bytes N] [--window N] [--timeout CODE] [--retries N] [--rnr N] [--uc]
//                   [--begin FILE] [--patience MS]
//
// FROM and TO are devices, which may be the same. Prints "qps A B", and begins once FILE is there. Gives up when
// nothing happens for MS. For each completion that is no success it prints "SIDE status N"; at the end "sent N received
// N wrong N gaps N", where wrong counts messages with other bytes than were sent, and gaps those that are not the
// successor of the one before.
#include <infiniband/verbs.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

struct Options {
  uint32_t messages = 20, bytes = 256, window = 1, timeout = 8, retries = 7, rnr = 7, patience = 0;
  bool uc = false;
  const char* begin = nullptr;
};

[[noreturn]] void die(const char* what) {
  std::perror(what);
  std::exit(1);
}

/// A device with a queue pair, and a buffer for each message.
struct Side {
  Side(const char* name, const Options& chosen)
      : options(chosen), memory(std::size_t{options.messages} * options.bytes) {
    ibv_device** devices = ibv_get_device_list(nullptr);
    for (ibv_device** one = devices; one != nullptr && *one != nullptr; ++one) {
      if (std::strcmp(ibv_get_device_name(*one), name) == 0) context = ibv_open_device(*one);
    }
    if (context == nullptr || ibv_query_gid(context, 1, 0, &gid) != 0) die(name);
    ibv_pd* const pd = ibv_alloc_pd(context);
    mr = (ibv_reg_mr)(pd, memory.data(), memory.size(), IBV_ACCESS_LOCAL_WRITE);
    cq = ibv_create_cq(context, static_cast<int>(options.messages), nullptr, nullptr, 0);
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq;
    init.cap = {options.window, options.messages, 1, 1, 0};
    init.qp_type = options.uc ? IBV_QPT_UC : IBV_QPT_RC;
    init.sq_sig_all = 1;
    qp = mr != nullptr && cq != nullptr ? ibv_create_qp(pd, &init) : nullptr;
    if (qp == nullptr) die("cannot create a queue pair");
  }

  void connect(const Side& peer) const {
    ibv_qp_attr attr{};
    const auto modify = [&](ibv_qp_state state, int mask) {
      attr.qp_state = state;
      if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | mask) != 0) die("cannot connect");
    };
    const int of_rc = options.uc ? 0 : -1;
    attr.port_num = 1;
    modify(IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = peer.qp->qp_num;
    attr.max_dest_rd_atomic = attr.max_rd_atomic = 1;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    attr.ah_attr.grh.dgid = peer.gid;
    attr.ah_attr.grh.hop_limit = 64;
    modify(IBV_QPS_RTR, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                            (of_rc & (IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)));
    attr.timeout = static_cast<uint8_t>(options.timeout);  // by default 1 ms
    attr.retry_cnt = static_cast<uint8_t>(options.retries);
    attr.rnr_retry = static_cast<uint8_t>(options.rnr);
    modify(IBV_QPS_RTS,
           IBV_QP_SQ_PSN | (of_rc & (IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC)));
  }

  ibv_sge place(uint32_t message) { return {reinterpret_cast<uint64_t>(at(message)), options.bytes, mr->lkey}; }
  uint8_t* at(uint32_t message) { return memory.data() + std::size_t{message} * options.bytes; }

  const Options& options;
  std::vector<uint8_t> memory;
  ibv_context* context = nullptr;
  ibv_gid gid{};
  ibv_mr* mr = nullptr;
  ibv_cq* cq = nullptr;
  ibv_qp* qp = nullptr;
};

/// Writes message `i`, its number first.
void fill(uint8_t* at, uint32_t i, uint32_t bytes) {
  for (uint32_t k = 0; k < bytes; ++k) at[k] = static_cast<uint8_t>(i * 31 + k * 7);
  std::memcpy(at, &i, sizeof i);
}

class Run {
 public:
  Run(Side& from, Side& to, const Options& options) : from_(from), to_(to), options_(options) {}

  void go() {
    for (uint32_t i = 0; i < options_.messages; ++i) post_receive(i);
    auto last = Clock::now();
    // Messages of UC may be lost: then nothing comes any more.
    const uint32_t usual = options_.uc ? 500 : 30'000;
    const auto patience = std::chrono::milliseconds(options_.patience != 0 ? options_.patience : usual);
    while (!failed_ && (done_ < options_.messages || received_ < options_.messages) && Clock::now() - last < patience) {
      while (posted_ < options_.messages && posted_ - done_ < options_.window) post_send(posted_++);
      if (take_completions()) last = Clock::now();
    }
    std::printf("sent %u received %u wrong %u gaps %u\n", done_, received_, wrong_, gaps_);
  }

 private:
  using Clock = std::chrono::steady_clock;

  void post_receive(uint32_t i) {
    ibv_sge sge = to_.place(i);
    ibv_recv_wr wr{i, nullptr, &sge, 1}, *bad = nullptr;
    if (ibv_post_recv(to_.qp, &wr, &bad) != 0) die("cannot post a receive");
  }
  void post_send(uint32_t i) {
    fill(from_.at(i), i, options_.bytes);
    ibv_sge sge = from_.place(i);
    ibv_send_wr wr{}, *bad = nullptr;
    wr.wr_id = i;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    if (ibv_post_send(from_.qp, &wr, &bad) != 0) die("cannot post a send");
  }
  bool take_completions() {
    bool any = false;
    ibv_wc wc{};
    while (ibv_poll_cq(from_.cq, 1, &wc) > 0) {
      any = true;
      if (!is_good("sender", wc)) continue;
      ++done_;
    }
    while (ibv_poll_cq(to_.cq, 1, &wc) > 0) {
      any = true;
      if (is_good("receiver", wc)) verify(static_cast<uint32_t>(wc.wr_id), wc.byte_len);
    }
    return any;
  }
  bool is_good(const char* side, const ibv_wc& wc) {
    if (wc.status == IBV_WC_SUCCESS) return true;
    if (wc.status != IBV_WC_WR_FLUSH_ERR) std::printf("%s status %d\n", side, wc.status);
    failed_ = true;
    return false;
  }
  void verify(uint32_t slot, uint32_t length) {
    const uint8_t* got = to_.at(slot);
    uint32_t number = 0;
    std::memcpy(&number, got, sizeof number);
    std::vector<uint8_t> wanted(options_.bytes);
    fill(wanted.data(), number, options_.bytes);
    if (length != options_.bytes || std::memcmp(got, wanted.data(), length) != 0) ++wrong_;
    if (number != next_) ++gaps_;
    next_ = number + 1;
    ++received_;
  }

  Side& from_;
  Side& to_;
  const Options& options_;
  uint32_t posted_ = 0, done_ = 0, received_ = 0, wrong_ = 0, gaps_ = 0, next_ = 0;
  bool failed_ = false;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  Options options;
  for (int i = 3; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--uc") {
      options.uc = true;
      continue;
    }
    if (++i == argc) return 2;
    if (word == "--begin") options.begin = argv[i];
    const auto value = static_cast<uint32_t>(std::atoi(argv[i]));
    if (word == "--messages") options.messages = value;
    if (word == "--bytes") options.bytes = value;
    if (word == "--window") options.window = value;
    if (word == "--timeout") options.timeout = value;
    if (word == "--retries") options.retries = value;
    if (word == "--rnr") options.rnr = value;
    if (word == "--patience") options.patience = value;
  }
  Side from(argv[1], options), to(argv[2], options);
  from.connect(to);
  to.connect(from);
  std::printf("qps 0x%x 0x%x\n", from.qp->qp_num, to.qp->qp_num);
  std::fflush(stdout);
  while (options.begin != nullptr && access(options.begin, F_OK) != 0) usleep(1000);
  Run(from, to, options).go();
  return 0;
}

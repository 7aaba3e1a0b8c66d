// Registers memory in many files in one call, writes and reads all of it by RDMA, and deregisters it. Written for
// libibverbs alone.
//
//   many_files FOLDER STEPS COUNT KIB [lock]
//
// FOLDER is where the files go, each of KIB, mapped next to each other. The first byte is in the middle of the first
// file's first page. The program says what it did, and waits before the next step for a file in STEPS with the step's
// number: it has devices and queue pairs; it has registered; it has deregistered. `lock` first takes the mode of a file
// in the middle away, so that it cannot be opened, and registers in vain.
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kPart = std::size_t{1} << 20, kInPage = 2048;
constexpr int kAll = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
constexpr uint32_t kPsn = 7;

[[noreturn]] void die(const char* what) {
  std::perror(what);
  std::exit(1);
}

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

void wait_for(const std::string& file) {
  while (access(file.c_str(), F_OK) != 0) usleep(5000);
}

struct Files {
  std::string folder;
  std::size_t count, bytes;
  uint8_t* at = nullptr;

  std::string name(std::size_t i) const { return folder + "/file-" + std::to_string(i); }
  std::size_t length() const { return count * bytes; }
  void make() {
    const std::size_t reserved = length() + bytes;
    void* const found = mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (found == MAP_FAILED) die("mmap");
    at = static_cast<uint8_t*>(found);
    at += -reinterpret_cast<uintptr_t>(at) % bytes;
    for (std::size_t i = 0; i < count; ++i) {
      const int fd = open(name(i).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
      if (fd < 0 || ftruncate(fd, static_cast<off_t>(bytes)) != 0) die(name(i).c_str());
      if (mmap(at + i * bytes, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) die("file");
      close(fd);
    }
  }
  void remove() const {
    for (std::size_t i = 0; i < count; ++i) unlink(name(i).c_str());
  }
};

/// One device with its objects.
struct Side {
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_cq* cq = nullptr;
  ibv_qp* qp = nullptr;
  ibv_gid gid{};

  explicit Side(const char* name) {
    ibv_device** list = ibv_get_device_list(nullptr);
    for (ibv_device** one = list; one != nullptr && *one != nullptr; ++one) {
      if (std::strcmp(ibv_get_device_name(*one), name) == 0) context = ibv_open_device(*one);
    }
    if (context == nullptr) die(name);
    pd = ibv_alloc_pd(context);
    cq = ibv_create_cq(context, 16, nullptr, nullptr, 0);
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq;
    init.cap = {4, 1, 1, 1, 0};
    init.qp_type = IBV_QPT_RC;
    qp = pd != nullptr && cq != nullptr ? ibv_create_qp(pd, &init) : nullptr;
    if (qp == nullptr || ibv_query_gid(context, 1, 0, &gid) != 0) die("the objects of a device");
  }
  void connect(const Side& peer) const {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags = kAll;
    int bad = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_4096;
    attr.dest_qp_num = peer.qp->qp_num;
    attr.rq_psn = attr.sq_psn = kPsn;
    attr.max_dest_rd_atomic = attr.max_rd_atomic = 4;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.grh.dgid = peer.gid;
    attr.ah_attr.grh.hop_limit = 64;
    attr.ah_attr.port_num = 1;
    bad |= ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                             IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 18;
    attr.retry_cnt = 7;
    bad |= ibv_modify_qp(
        qp, &attr,
        IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
    if (bad != 0) die("ibv_modify_qp");
  }
  void move(ibv_wr_opcode opcode, const ibv_mr& local, std::size_t bytes, const uint8_t* remote, uint32_t rkey) const {
    ibv_sge sge{reinterpret_cast<uint64_t>(local.addr), static_cast<uint32_t>(bytes), local.lkey};
    ibv_send_wr wr{}, *bad = nullptr;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = opcode;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma = {reinterpret_cast<uint64_t>(remote), rkey};
    if (ibv_post_send(qp, &wr, &bad) != 0) die("ibv_post_send");
    ibv_wc wc{};
    while (ibv_poll_cq(cq, 1, &wc) == 0) {
    }
    if (wc.status != IBV_WC_SUCCESS) {
      std::fprintf(stderr, "a work request ended with %s\n", ibv_wc_status_str(wc.status));
      std::exit(1);
    }
  }
};

uint8_t pattern(std::size_t byte) { return static_cast<uint8_t>(byte * 11 / 8 + byte / 4096 * 3); }

/// Writes all of [at, at + length) from the other device, compares what came, changes it, and reads it back.
void write_and_read(const Side& from, uint8_t* at, std::size_t length, uint32_t rkey) {
  std::vector<uint8_t> part(kPart), expected(kPart);
  ibv_mr* const local = ibv_reg_mr(from.pd, part.data(), part.size(), kAll);
  if (local == nullptr) die("ibv_reg_mr of a part");
  for (std::size_t done = 0; done < length; done += kPart) {
    const std::size_t bytes = std::min(kPart, length - done);
    for (std::size_t i = 0; i < bytes; ++i) part[i] = pattern(done + i);
    expected = part;
    from.move(IBV_WR_RDMA_WRITE, *local, bytes, at + done, rkey);
    if (std::memcmp(at + done, expected.data(), bytes) != 0) die("other bytes were written");
    for (std::size_t i = 0; i < bytes; i += 512) at[done + i] = expected[i] = static_cast<uint8_t>(~expected[i]);
    from.move(IBV_WR_RDMA_READ, *local, bytes, at + done, rkey);
    if (std::memcmp(part.data(), expected.data(), bytes) != 0) die("other bytes were read");
  }
  ibv_dereg_mr(local);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) return std::puts("usage: many_files FOLDER STEPS COUNT KIB [lock]"), 1;
  Files files{argv[1], std::strtoul(argv[3], nullptr, 10), std::strtoul(argv[4], nullptr, 10) << 10};
  const std::string steps = argv[2];
  files.make();
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const Side from("uroce0"), to("uroce1");
  from.connect(to);
  to.connect(from);
  std::puts("ready");
  wait_for(steps + "/1");
  uint8_t* const at = files.at + kInPage;
  const std::size_t length = files.length() - kInPage;
  if (argc > 5) {
    const std::string locked = files.name(files.count * 2 / 3);
    chmod(locked.c_str(), 0);
    ibv_mr* const refused = ibv_reg_mr(to.pd, at, length, kAll);
    std::printf("a locked file: %s\n", refused != nullptr ? "registered" : std::strerror(errno));
    chmod(locked.c_str(), 0600);
  }
  auto start = Clock::now();
  ibv_mr* const mr = ibv_reg_mr(to.pd, at, length, kAll);
  if (mr == nullptr) {
    std::printf("refused: %s\n", std::strerror(errno));
  } else {
    std::printf("registered %zu files in %.3f s\n", files.count, seconds_since(start));
    wait_for(steps + "/2");
    write_and_read(from, at, length, mr->rkey);
    start = Clock::now();
    if (ibv_dereg_mr(mr) != 0) die("ibv_dereg_mr");
    std::printf("deregistered in %.3f s\n", seconds_since(start));
  }
  wait_for(steps + "/3");
  files.remove();
  return 0;
}

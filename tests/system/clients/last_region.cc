// Regions overlap, and begin and end in any order. A peer sees all stores to a page while any region has it, and the
// program sees all of the peer's. With the end of its last region the page is private anonymous memory again.
//
//   last_region ROUNDS SEED
#include <vector>

#include "ordinary.h"

using namespace ordinary;

namespace {

constexpr std::size_t kPages = 64, kLongest = 8, kRegions = 12;

void must(bool is_right, const char* what) {
  if (!is_right) die("%s: %s", what, std::strerror(errno));
}

/// A device with a queue pair.
struct Side {
  explicit Side(ibv_device* device) : context(ibv_open_device(device)) {
    must(context != nullptr, "cannot open a device");
    pd = ibv_alloc_pd(context);
    cq = ibv_create_cq(context, 16, nullptr, nullptr, 0);
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq;
    init.cap = {16, 16, 1, 1, 0};
    init.qp_type = IBV_QPT_RC;
    qp = ibv_create_qp(pd, &init);
    must(qp != nullptr && ibv_query_gid(context, 1, 0, &gid) == 0, "cannot create a queue pair");
  }
  void connect(const Side& peer) const {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags = kAccess;
    must(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0, "INIT");
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = peer.qp->qp_num;
    attr.max_dest_rd_atomic = attr.max_rd_atomic = 1;
    attr.min_rnr_timer = 12;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    attr.ah_attr.grh.dgid = peer.gid;
    attr.ah_attr.grh.hop_limit = 64;
    must(ibv_modify_qp(qp, &attr,
                       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                           IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0,
         "RTR");
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 18;
    attr.retry_cnt = attr.rnr_retry = 7;
    must(ibv_modify_qp(qp, &attr,
                       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                           IBV_QP_MAX_QP_RD_ATOMIC) == 0,
         "RTS");
  }

  ibv_context* context;
  ibv_pd* pd;
  ibv_cq* cq;
  ibv_qp* qp;
  ibv_gid gid{};
};

/// The other end, with a word that it reads into and writes from.
class Peer {
 public:
  explicit Peer(ibv_device* device) : side(device) {}

  uint64_t read(const ibv_mr* from, const void* address) const {
    run(IBV_WR_RDMA_READ, from, address);
    return *word_;
  }
  void write(const ibv_mr* to, const void* address, uint64_t value) const {
    *word_ = value;
    run(IBV_WR_RDMA_WRITE, to, address);
  }

  const Side side;

 private:
  void run(ibv_wr_opcode opcode, const ibv_mr* remote, const void* address) const {
    ibv_sge where{reinterpret_cast<uint64_t>(word_), sizeof(uint64_t), region_->lkey};
    ibv_send_wr request{}, *bad = nullptr;
    request.sg_list = &where;
    request.num_sge = 1;
    request.opcode = opcode;
    request.send_flags = IBV_SEND_SIGNALED;
    request.wr.rdma.remote_addr = reinterpret_cast<uint64_t>(address);
    request.wr.rdma.rkey = remote->rkey;
    must(ibv_post_send(side.qp, &request, &bad) == 0, "cannot post a request");
    ibv_wc wc{};
    int got = 0;
    while ((got = ibv_poll_cq(side.cq, 1, &wc)) == 0) usleep(20);
    if (got < 0 || wc.status != IBV_WC_SUCCESS)
      die("expected the peer to reach the region at %p: %s", address, ibv_wc_status_str(wc.status));
  }

  uint64_t* word_ = reinterpret_cast<uint64_t*>(map_pages(1));
  ibv_mr* region_ = must_register(side.pd, word_, kPage);
};

struct Region {
  ibv_mr* mr;
  std::size_t first, pages;
};

class Area {
 public:
  Area(ibv_pd* pd, Random random) : pd_(pd), random_(random) {}

  void round(const Peer& peer) {
    if (regions_.size() < kRegions && (regions_.empty() || random_.below(2) == 0))
      begin();
    else
      end(random_.below(regions_.size()));
    for (std::size_t i = 0; !regions_.empty() && i < 4; ++i) {
      const Region& region = regions_[random_.below(regions_.size())];
      reach(peer, region, region.first + random_.below(region.pages));
    }
  }
  void end_all() {
    while (!regions_.empty()) end(regions_.size() - 1);
    for (std::size_t page = 0; page < kPages; ++page) check(page, "at the end");
    if (mappings_within(memory_, kPages * kPage) != 1)
      die("expected one mapping at the end, found %zu", mappings_within(memory_, kPages * kPage));
  }

 private:
  uint64_t* at(std::size_t page) const { return reinterpret_cast<uint64_t*>(memory_ + page * kPage); }
  void check(std::size_t page, const char* when) const {
    if (*at(page) != numbers_[page]) {
      die("page %zu %s: expected %lu, found %lu", page, when, static_cast<unsigned long>(numbers_[page]),
          static_cast<unsigned long>(*at(page)));
    }
  }
  void store(std::size_t page) { *at(page) = numbers_[page] = ++last_; }

  void begin() {
    const std::size_t pages = 1 + random_.below(kLongest), first = random_.below(kPages - pages + 1);
    for (std::size_t page = first; page < first + pages; ++page) store(page);
    regions_.push_back({must_register(pd_, at(first), pages * kPage), first, pages});
    for (std::size_t page = first; page < first + pages; ++page) ++in_regions_[page];
  }
  void end(std::size_t index) {
    const Region region = regions_[index];
    regions_.erase(regions_.begin() + static_cast<std::ptrdiff_t>(index));
    must_deregister(region.mr);
    for (std::size_t page = region.first; page < region.first + region.pages; ++page) {
      check(page, "after the end of a region");
      if (--in_regions_[page] == 0) be_ordinary(page);
    }
  }
  void be_ordinary(std::size_t page) {
    if (not_ordinary(at(page), kPage) != 0)
      die("page %zu after its last region: expected private anonymous memory, which it is not", page);
    if (random_.below(2) == 0) return;
    must(raw_madvise(at(page), kPage, MADV_DONTNEED) == 0, "madvise");
    numbers_[page] = 0;
    check(page, "after its last region and MADV_DONTNEED");
  }
  void reach(const Peer& peer, const Region& region, std::size_t page) {
    store(page);
    if (const uint64_t seen = peer.read(region.mr, at(page)); seen != numbers_[page]) {
      die("page %zu: expected the peer to see %lu, it saw %lu", page, static_cast<unsigned long>(numbers_[page]),
          static_cast<unsigned long>(seen));
    }
    peer.write(region.mr, at(page), numbers_[page] = ++last_);
    check(page, "after a peer's WRITE");
  }

  ibv_pd* pd_;
  Random random_;
  Byte* memory_ = map_pages(kPages);
  std::vector<Region> regions_;
  std::array<std::size_t, kPages> in_regions_{};
  std::array<uint64_t, kPages> numbers_{};
  uint64_t last_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) die("write: last_region ROUNDS SEED");
  int count = 0;
  ibv_device** devices = ibv_get_device_list(&count);
  if (count < 2) die("expected two devices, found %d", count);
  const Side side(devices[0]);
  const Peer peer(devices[1]);
  side.connect(peer.side);
  peer.side.connect(side);
  Area area(side.pd, Random(std::strtoul(argv[2], nullptr, 10)));
  const int rounds = std::atoi(argv[1]);
  for (int i = 0; i < rounds; ++i) area.round(peer);
  area.end_all();
  std::printf("%d rounds, seed %s\n", rounds, argv[2]);
  return 0;
}

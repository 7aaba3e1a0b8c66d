#include "peer.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <stdexcept>
#include <string>
#include <string_view>

#include "dropin/ibverbs/later_verbs.h"
#include "rxe_flush.h"

namespace interop {

namespace {

using Clock = std::chrono::steady_clock;

namespace later = uroce::dropin::later;

// Later headers than rdma-core 44's have it.
constexpr unsigned kAccessFlushGlobal = 1u << 8;

template <typename T>
T* must(T* object, const char* verb) {
  if (object == nullptr) throw std::runtime_error(std::string(verb) + ": " + std::strerror(errno));
  return object;
}

void must(int code, const char* verb) {
  if (code != 0) throw std::runtime_error(std::string(verb) + ": " + std::strerror(code > 0 ? code : errno));
}

// A pattern that neither repeats within a message nor looks the same for two seeds.
std::uint8_t pattern(std::uint32_t seed, std::size_t at) {
  std::uint32_t x = seed * 0x9E3779B1u ^ static_cast<std::uint32_t>(at) * 0x85EBCA77u;
  x ^= x >> 15;
  x *= 0xC2B2AE3Du;
  return static_cast<std::uint8_t>(x >> 24);
}

unsigned access_flags(const Json& request) {
  static const std::map<std::string, unsigned> kNames = {
      {"local", IBV_ACCESS_LOCAL_WRITE},    {"write", IBV_ACCESS_REMOTE_WRITE}, {"read", IBV_ACCESS_REMOTE_READ},
      {"atomic", IBV_ACCESS_REMOTE_ATOMIC}, {"flush", kAccessFlushGlobal},      {"on_demand", IBV_ACCESS_ON_DEMAND}};
  unsigned flags = 0;
  for (const Json& name : request.at("access")) flags |= kNames.at(name.get<std::string>());
  return flags;
}

ibv_gid gid_from(const std::string& text) {
  ibv_gid gid{};
  if (inet_pton(AF_INET6, text.c_str(), gid.raw) != 1) throw std::runtime_error("no GID: " + text);
  return gid;
}

// A queue pair whose calls for sending are those of ibv_wr_start(3).
ibv_qp* create_extended(ibv_context* context, ibv_pd* pd, const ibv_qp_init_attr& plain, const Json& operations) {
  static const std::map<std::string, std::uint64_t> kFlags = {{"WRITE", IBV_QP_EX_WITH_RDMA_WRITE},
                                                              {"ATOMIC_WRITE", IBV_QP_EX_WITH_ATOMIC_WRITE},
                                                              {"FLUSH", later::kWithFlush}};
  ibv_qp_init_attr_ex init{};
  init.send_cq = plain.send_cq;
  init.recv_cq = plain.recv_cq;
  init.cap = plain.cap;
  init.qp_type = plain.qp_type;
  init.pd = pd;
  init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  for (const Json& name : operations) init.send_ops_flags |= kFlags.at(name.get<std::string>());
  return must(ibv_create_qp_ex(context, &init), "ibv_create_qp_ex");
}

Json completion(const ibv_wc& wc) {
  Json reply = {{"wr_id", wc.wr_id}, {"status", ibv_wc_status_str(wc.status)}, {"code", wc.status}};
  if (wc.status != IBV_WC_SUCCESS) return reply;
  reply["opcode"] = wc.opcode;
  reply["length"] = wc.byte_len;
  if ((wc.wc_flags & IBV_WC_WITH_IMM) != 0) reply["imm"] = ntohl(wc.imm_data);
  if ((wc.wc_flags & IBV_WC_GRH) != 0) reply["grh"] = true;
  reply["src_qp"] = wc.src_qp;
  return reply;
}

}  // namespace

Peer::Peer(const char* device) {
  int count = 0;
  ibv_device** list = must(ibv_get_device_list(&count), "ibv_get_device_list");
  const auto found = std::find_if(list, list + count, [&](ibv_device* d) { return std::strcmp(d->name, device) == 0; });
  if (found != list + count) context_.reset(ibv_open_device(*found));
  ibv_free_device_list(list);
  must(context_.get(), "ibv_open_device");
  pd_.reset(must(ibv_alloc_pd(context_.get()), "ibv_alloc_pd"));
  must(fcntl(context_->async_fd, F_SETFL, O_NONBLOCK), "fcntl");
}

Json Peer::answer(const Json& request) {
  const auto call = request.at("call").get<std::string>();
  if (call == "about") return about();
  if (call == "region") return region(request);
  if (call == "fill") return fill(request);
  if (call == "check") return check(request);
  if (call == "word") return word(request);
  if (call == "qp") return qp(request);
  if (call == "connect") return connect(request);
  if (call == "ah") return ah(request);
  if (call == "recv") return recv(request);
  if (call == "post") return post(request);
  if (call == "poll") return poll(request);
  if (call == "state") return state(request);
  if (call == "events") return events(request);
  if (call == "destroy") return destroy(request);
  throw std::runtime_error("there is no call " + call);
}

Json Peer::about() {
  ibv_port_attr port{};
  must(ibv_query_port(context_.get(), 1, &port), "ibv_query_port");
  Json gids = Json::array();
  for (int index = 0; index < std::min(port.gid_tbl_len, 32); ++index) {
    ibv_gid gid{};
    if (ibv_query_gid(context_.get(), 1, index, &gid) != 0) continue;
    char text[INET6_ADDRSTRLEN] = {};
    inet_ntop(AF_INET6, gid.raw, text, sizeof text);
    gids.push_back(text);
  }
  return {{"gids", gids}, {"mtu", 128 << port.active_mtu}};
}

Json Peer::region(const Json& request) {
  Region made;
  const auto kind = request.value("memory", std::string("heap"));
  made.memory = make_memory(kind, request.at("length"));
  made.bytes = made.memory->bytes();
  made.mr.reset(must(made.memory->register_in(pd_.get(), static_cast<int>(access_flags(request))),
                     kind == "heap" ? "ibv_reg_mr" : "ibv_reg_dmabuf_mr"));
  const Json reply = {{"id", next_},
                      {"addr", reinterpret_cast<std::uintptr_t>(made.bytes.data())},
                      {"lkey", made.mr->lkey},
                      {"rkey", made.mr->rkey}};
  regions_.emplace(next_++, std::move(made));
  return reply;
}

Json Peer::fill(const Json& request) {
  Region& region = regions_.at(request.at("region"));
  const std::size_t offset = request.value("offset", std::size_t{0});
  const std::size_t length = request.value("length", region.bytes.size());
  const std::uint32_t seed = request.at("seed");
  const std::size_t from = request.value("from", std::size_t{0});
  if (offset > region.bytes.size() || length > region.bytes.size() - offset) {
    throw std::runtime_error("no bytes of the region");
  }
  for (std::size_t at = 0; at < length; ++at) region.bytes[offset + at] = pattern(seed, from + at);
  return Json::object();
}

// The range has the pattern of `seed`; outside it the whole region still has that of `background`.
Json Peer::check(const Json& request) {
  const Region& region = regions_.at(request.at("region"));
  const std::size_t offset = request.at("offset");
  const std::size_t length = request.at("length");
  const std::uint32_t seed = request.at("seed");
  const std::uint32_t background = request.at("background");
  for (std::size_t at = 0; at < region.bytes.size(); ++at) {
    const bool inside = at >= offset && at < offset + length;
    const std::uint8_t want = inside ? pattern(seed, at - offset) : pattern(background, at);
    if (region.bytes[at] != want)
      return {{"wrong", at}, {"inside", inside}, {"is", region.bytes[at]}, {"should", want}};
  }
  return Json::object();
}

// The 64-bit word at an offset, after "set" has been stored there.
Json Peer::word(const Json& request) {
  Region& region = regions_.at(request.at("region"));
  const std::size_t offset = request.at("offset");
  std::uint64_t value = 0;
  if (offset + sizeof value > region.bytes.size()) throw std::runtime_error("no word of the region");
  if (request.contains("set")) {
    value = request.at("set");
    std::memcpy(region.bytes.data() + offset, &value, sizeof value);
  }
  std::memcpy(&value, region.bytes.data() + offset, sizeof value);
  return {{"value", value}};
}

Json Peer::qp(const Json& request) {
  static const std::map<std::string, ibv_qp_type> kTypes = {{"RC", IBV_QPT_RC}, {"UC", IBV_QPT_UC}, {"UD", IBV_QPT_UD}};
  const int depth = request.value("depth", 64);
  QueuePair made;
  made.send_cq.reset(must(ibv_create_cq(context_.get(), 2 * depth, nullptr, nullptr, 0), "ibv_create_cq"));
  made.recv_cq.reset(must(ibv_create_cq(context_.get(), 2 * depth, nullptr, nullptr, 0), "ibv_create_cq"));
  ibv_qp_init_attr init{};
  init.send_cq = made.send_cq.get();
  init.recv_cq = made.recv_cq.get();
  init.qp_type = kTypes.at(request.at("type"));
  const auto depths = static_cast<std::uint32_t>(depth);
  init.cap = {
      .max_send_wr = depths, .max_recv_wr = depths, .max_send_sge = 2, .max_recv_sge = 2, .max_inline_data = 64};
  if (request.contains("operations")) {
    made.qp.reset(create_extended(context_.get(), pd_.get(), init, request.at("operations")));
  } else {
    made.qp.reset(must(ibv_create_qp(pd_.get(), &init), "ibv_create_qp"));
  }

  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
  if (init.qp_type == IBV_QPT_UD) {
    attr.qkey = request.at("qkey");
    mask |= IBV_QP_QKEY;
  } else {
    attr.qp_access_flags = access_flags(request);
    mask |= IBV_QP_ACCESS_FLAGS;
  }
  must(ibv_modify_qp(made.qp.get(), &attr, mask), "ibv_modify_qp to INIT");
  const Json reply = {{"id", next_}, {"qpn", made.qp->qp_num}};
  queue_pairs_.emplace(next_++, std::move(made));
  return reply;
}

ibv_ah_attr Peer::address(const Json& request) const {
  ibv_ah_attr attr{};
  attr.is_global = 1;
  attr.port_num = 1;
  attr.grh.dgid = gid_from(request.at("gid"));
  attr.grh.sgid_index = request.at("sgid_index");
  attr.grh.hop_limit = 64;
  return attr;
}

Json Peer::connect(const Json& request) {
  ibv_qp* qp = queue_pairs_.at(request.at("qp")).qp.get();
  const bool rc = qp->qp_type == IBV_QPT_RC;
  const bool ud = qp->qp_type == IBV_QPT_UD;
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  int mask = IBV_QP_STATE;
  if (!ud) {
    attr.ah_attr = address(request);
    attr.path_mtu = static_cast<ibv_mtu>(std::countr_zero(request.at("mtu").get<unsigned>()) - 7);
    attr.dest_qp_num = request.at("dest_qpn");
    attr.rq_psn = request.at("rq_psn");
    mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  }
  if (rc) {
    attr.max_dest_rd_atomic = request.value("rd_atomic", std::uint8_t{4});
    attr.min_rnr_timer = request.value("min_rnr_timer", std::uint8_t{12});
    mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  }
  must(ibv_modify_qp(qp, &attr, mask), "ibv_modify_qp to RTR");

  attr.qp_state = IBV_QPS_RTS;
  attr.sq_psn = request.at("sq_psn");
  mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
  if (rc) {
    attr.timeout = request.value("timeout", std::uint8_t{15});
    attr.retry_cnt = request.value("retry_cnt", std::uint8_t{7});
    attr.rnr_retry = request.value("rnr_retry", std::uint8_t{7});
    attr.max_rd_atomic = request.value("rd_atomic", std::uint8_t{4});
    mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  }
  must(ibv_modify_qp(qp, &attr, mask), "ibv_modify_qp to RTS");
  return Json::object();
}

Json Peer::ah(const Json& request) {
  ibv_ah_attr attr = address(request);
  handles_.emplace(next_, must(ibv_create_ah(pd_.get(), &attr), "ibv_create_ah"));
  return {{"id", next_++}};
}

ibv_sge Peer::entry(const Json& request) const {
  const Region& region = regions_.at(request.at("region"));
  return {.addr = reinterpret_cast<std::uintptr_t>(region.bytes.data()) + request.value("offset", std::uint64_t{0}),
          .length = request.at("length"),
          .lkey = request.value("lkey", region.mr->lkey)};
}

Json Peer::recv(const Json& request) {
  ibv_sge sge = entry(request);
  ibv_recv_wr wr{};
  wr.wr_id = request.value("wr_id", std::uint64_t{0});
  wr.sg_list = &sge;
  wr.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  must(ibv_post_recv(queue_pairs_.at(request.at("qp")).qp.get(), &wr, &bad), "ibv_post_recv");
  return Json::object();
}

Json Peer::post(const Json& request) {
  static const std::map<std::string, ibv_wr_opcode> kOperations = {{"SEND", IBV_WR_SEND},
                                                                   {"SEND_IMM", IBV_WR_SEND_WITH_IMM},
                                                                   {"WRITE", IBV_WR_RDMA_WRITE},
                                                                   {"WRITE_IMM", IBV_WR_RDMA_WRITE_WITH_IMM},
                                                                   {"READ", IBV_WR_RDMA_READ},
                                                                   {"FETCH_ADD", IBV_WR_ATOMIC_FETCH_AND_ADD},
                                                                   {"CMP_SWAP", IBV_WR_ATOMIC_CMP_AND_SWP}};
  if (request.at("op") == "FLUSH" || request.at("op") == "ATOMIC_WRITE") return post_placement(request);
  ibv_sge sge = entry(request);
  ibv_send_wr wr{};
  wr.wr_id = request.value("wr_id", std::uint64_t{0});
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = kOperations.at(request.at("op"));
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.imm_data = htonl(request.value("imm", std::uint32_t{0}));
  if (request.contains("ah")) {
    wr.wr.ud.ah = handles_.at(request.at("ah")).get();
    wr.wr.ud.remote_qpn = request.at("remote_qpn");
    wr.wr.ud.remote_qkey = request.at("remote_qkey");
  } else if (wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
    wr.wr.atomic.remote_addr = request.at("remote_addr");
    wr.wr.atomic.rkey = request.at("rkey");
    wr.wr.atomic.compare_add = request.at("compare_add");
    wr.wr.atomic.swap = request.value("swap", std::uint64_t{0});
  } else if (request.contains("remote_addr")) {
    wr.wr.rdma.remote_addr = request.at("remote_addr");
    wr.wr.rdma.rkey = request.at("rkey");
  }
  ibv_send_wr* bad = nullptr;
  must(ibv_post_send(queue_pairs_.at(request.at("qp")).qp.get(), &wr, &bad), "ibv_post_send");
  return Json::object();
}

// FLUSH or ATOMIC_WRITE, which the plain call cannot post.
Json Peer::post_placement(const Json& request) {
  auto* qp = static_cast<later::QpEx*>(ibv_qp_to_qp_ex(queue_pairs_.at(request.at("qp")).qp.get()));
  const std::uint32_t rkey = request.at("rkey");
  const std::uint64_t address = request.at("remote_addr");
  const std::uint64_t wr_id = request.value("wr_id", std::uint64_t{0});
  const auto type = request.value("type", std::uint8_t{1});
  const auto level = request.value("level", std::uint8_t{0});
  const bool flush = request.at("op") == "FLUSH";
  if (flush && std::string_view(context_->device->name).starts_with("rxe")) {
    post_rxe_flush(qp, {wr_id, address, request.at("length"), rkey, type, level});
    return Json::object();
  }
  ibv_wr_start(qp);
  qp->wr_id = wr_id;
  qp->wr_flags = IBV_SEND_SIGNALED;
  if (flush) {
    qp->wr_flush(qp, rkey, address, request.at("length"), type, level);
  } else {
    const std::uint64_t value = request.at("value");
    ibv_wr_atomic_write(qp, rkey, address, &value);
  }
  must(ibv_wr_complete(qp), "ibv_wr_complete");
  return Json::object();
}

// Completions in their order, `count` of them or as many as come within `seconds`.
Json Peer::poll(const Json& request) {
  QueuePair& pair = queue_pairs_.at(request.at("qp"));
  ibv_cq* cq = (request.at("queue") == "send" ? pair.send_cq : pair.recv_cq).get();
  const std::size_t count = request.value("count", std::size_t{1});
  const auto limit = Clock::now() + std::chrono::duration<double>(request.value("seconds", 10.0));
  Json found = Json::array();
  while (found.size() < count) {
    ibv_wc wc{};
    const int got = ibv_poll_cq(cq, 1, &wc);
    if (got < 0) throw std::runtime_error("ibv_poll_cq failed");
    if (got > 0) {
      found.push_back(completion(wc));
    } else if (Clock::now() > limit) {
      break;
    } else {
      const timespec pause{.tv_sec = 0, .tv_nsec = 20'000};
      nanosleep(&pause, nullptr);
    }
  }
  return {{"completions", found}};
}

Json Peer::state(const Json& request) {
  static const std::map<ibv_qp_state, const char*> kNames = {
      {IBV_QPS_RESET, "RESET"}, {IBV_QPS_INIT, "INIT"}, {IBV_QPS_RTR, "RTR"}, {IBV_QPS_RTS, "RTS"},
      {IBV_QPS_SQD, "SQD"},     {IBV_QPS_SQE, "SQE"},   {IBV_QPS_ERR, "ERR"}};
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  must(ibv_query_qp(queue_pairs_.at(request.at("qp")).qp.get(), &attr, IBV_QP_STATE, &init), "ibv_query_qp");
  return {{"state", kNames.at(attr.qp_state)}};
}

// Asynchronous events that have come, or the first to come within `seconds`.
Json Peer::events(const Json& request) {
  pollfd ready{.fd = context_->async_fd, .events = POLLIN, .revents = 0};
  ::poll(&ready, 1, static_cast<int>(request.value("seconds", 0.0) * 1000));
  Json found = Json::array();
  ibv_async_event event{};
  while (ibv_get_async_event(context_.get(), &event) == 0) {
    found.push_back(ibv_event_type_str(event.event_type));
    ibv_ack_async_event(&event);
  }
  return {{"events", found}};
}

Json Peer::destroy(const Json& request) {
  const int id = request.at("id");
  if (queue_pairs_.erase(id) + handles_.erase(id) + regions_.erase(id) == 0)
    throw std::runtime_error("there is no object " + std::to_string(id));
  return Json::object();
}

}  // namespace interop

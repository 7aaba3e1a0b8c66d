#include "tests/script/runner.h"

#include <fmt/format.h>

#include <algorithm>

#include "settings/names.h"
#include "tests/script/names.h"
#include "wire/recovery.h"

namespace uroce::test {

namespace {

constexpr uint32_t kLocalQpn = 0x11;
constexpr uint32_t kPeerQpn = 0x22;
AccessFlags parse_access(const Words& words, const std::string& text) {
  if (text == "all") return kAllAccess;
  AccessFlags flags;
  if (text == "none") return flags;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const auto flag = enum_of(kAccessNames, text.substr(at, end - at));
    if (!flag) words.error(fmt::format("'{}' is no access flag", text.substr(at, end - at)));
    flags |= *flag;
    at = end + 1;
  }
  return flags;
}

Mtu mtu_of(uint64_t bytes) {
  for (Mtu mtu : {Mtu::mtu256, Mtu::mtu512, Mtu::mtu1024, Mtu::mtu2048, Mtu::mtu4096}) {
    if (mtu_bytes(mtu) == bytes) return mtu;
  }
  throw ScriptError{0, "mtu must be 256, 512, 1024, 2048 or 4096"};
}

}  // namespace

const std::map<std::string, Runner::Command>& Runner::commands() {
  static const std::map<std::string, Command> table{
      {"set", &Runner::do_set},
      {"region", &Runner::do_region},
      {"<", &Runner::do_inject},
      {"post", &Runner::do_post},
      {"recv", &Runner::do_recv},
      {"modify", &Runner::do_modify},
      {"deregister", &Runner::do_deregister},
      {"poke", &Runner::do_poke},
      {"arm", &Runner::do_arm},
      {"room", &Runner::do_room},
      {"srq_limit", &Runner::do_srq_limit},
      {"drop_srq", &Runner::do_drop_srq},
      {">", &Runner::do_expect},
      {"cqe", &Runner::do_cqe},
      {"rcqe", &Runner::do_recv_cqe},
      {"event", &Runner::do_event},
      {"fired", &Runner::do_fired},
      {"quiet", &Runner::do_quiet},
      {"mem", &Runner::do_memory},
      {"state", &Runner::do_state},
      {"srq", &Runner::do_srq},
      {"counter", &Runner::do_counter},
      {"poll", &Runner::do_poll},
      {"hold", &Runner::do_hold},
      {"rule", &Runner::do_rule},
      {"drop_rule", &Runner::do_drop_rule},
      {"join", &Runner::do_join},
      {"leave", &Runner::do_join},
  };
  return table;
}

void Runner::run() {
  for (const ScriptLine& line : script_.lines) {
    const auto command = commands().find(line.command);
    if (command == commands().end()) throw ScriptError{line.number, fmt::format("'{}' is no command", line.command)};
    const bool set_up = line.command == "set" || line.command == "region";
    if (set_up && connected_)
      throw ScriptError{line.number, fmt::format("{} must stand before everything else", line.command)};
    if (!set_up && !connected_) connect();
    if (line.within && line.command != ">" && line.command != "cqe" && line.command != "rcqe") {
      throw ScriptError{line.number, "only frames and completions can be waited for with ~"};
    }
    // Frames injected back to back reach the engine before it polls, as one burst would.
    if (connected_ && (line.command != "<" || line.step != Nanos(0))) {
      advance(line);
    }
    (this->*command->second)(line);
  }
  if (!connected_) connect();
  named_polls_ ? collect() : settle();
  const int last = script_.lines.empty() ? 0 : script_.lines.back().number;
  if (const std::string left = leftovers(); !left.empty())
    throw ScriptError{last, fmt::format("at the end, not expected: {}", left)};
  if (!endpoint_->guards_intact()) throw ScriptError{last, "bytes outside a region were written"};
}

void Runner::do_set(const ScriptLine& line) {
  static const char* const kKeys[] = {
      "mtu",        "psn",       "peer_psn",     "retry_cnt",  "rnr_retry",      "timeout",
      "min_rnr",    "max_rd",    "max_dest_rd",  "window",     "access",         "send_wr",
      "recv_wr",    "send_sge",  "recv_sge",     "inline",     "signal_all",     "srq",
      "type",       "state",     "cq",           "ip",         "pkey",           "qkey",
      "congestion", "line_rate", "cnp_interval", "tos",        "retransmission", "parking",
      "loopback",   "polls",     "clock",        "peer_delay", "read_window",    "plb_rounds"};
  for (const std::string& word : line.words) {
    const std::size_t equals = word.find('=');
    const std::string key = word.substr(0, equals);
    if (equals == std::string::npos || std::find(std::begin(kKeys), std::end(kKeys), key) == std::end(kKeys)) {
      throw ScriptError{line.number, fmt::format("'{}' is no setting", word)};
    }
    settings_[key] = word.substr(equals + 1);
  }
}

uint64_t Runner::setting(const std::string& key, uint64_t fallback) const {
  const auto it = settings_.find(key);
  return it == settings_.end() ? fallback : std::stoull(it->second, nullptr, 0);
}

void Runner::do_region(const ScriptLine& line) {
  Words words(line, symbols_);
  RegionRequest request;
  request.name = words.bare();
  request.size = words.number_or("len", 65536);
  request.access = parse_access(words, words.text("access").value_or("all"));
  request.pd = static_cast<memory::PdId>(words.number_or("pd", 1));
  words.done();
  region_requests_.push_back(request);
}

void Runner::make_region(const std::string& name, std::size_t size, AccessFlags access, memory::PdId pd) {
  TestRegion& region = endpoint_->make_region(size, access, pd);
  regions_[name] = &region;
  symbols_.set(name, region.va());
  symbols_.set(name + ".key", region.key());
}

// Address handles by name: the peer, a multicast group, the peer in another protection domain.
void Runner::make_handles() {
  const wire::Route to_peer = make_route(wiring_.local, wiring_.peer);
  wire::Route to_group = to_peer;
  to_group.dgid = group();
  symbols_.set("peer", endpoint_->make_ah(to_peer));
  symbols_.set("group", endpoint_->make_ah(to_group));
  symbols_.set("foreign", endpoint_->make_ah(to_peer, false, 2));
}

// The shared receive queues that a target's peer may name: `queue`, where `recv` posts; `second`, which lends
// protection domain 2; `alien`, of another XRC domain.
void Runner::make_xrc_srqs(TestQp::Options& options) {
  options.xrc_domain = 1;
  xrc_srqs_["queue"] = srq_ = &endpoint_->make_xrc_srq(1, *recv_cq_, 16);
  xrc_srqs_["second"] = &endpoint_->make_xrc_srq(1, *send_cq_, 16, 4, 2);
  xrc_srqs_["alien"] = &endpoint_->make_xrc_srq(2, *recv_cq_, 16);
  options.srq = srq_;
  for (const auto& [name, srq] : xrc_srqs_) symbols_.set(name, srq->srq().id);
}

Gid Runner::group() const {
  if (setting("ip", 4) == 4) return Gid::from_ipv4(0xe0000107);  // 224.0.1.7
  return Gid{{0xff, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7}};
}

void Runner::connect() {
  connected_ = true;
  EndpointOptions& local = wiring_.local;
  local.engine.max_qps = 64;
  local.engine.plain_path = plain_path_;
  local.keeps_recording = records_;
  local.engine.window_packets = static_cast<uint32_t>(setting("window", 256));
  local.engine.pkey = static_cast<uint16_t>(setting("pkey", 0xffff));
  local.engine.peer_delay = Nanos(static_cast<int64_t>(setting("peer_delay", 0)));
  local.engine.read_window_packets = static_cast<uint32_t>(setting("read_window", local.engine.read_window_packets));
  now_ = begin_ = Nanos(static_cast<int64_t>(setting("clock", 1'000'000)));
  named_polls_ = settings_.contains("polls");
  if (named_polls_ && settings_["polls"] != "named") throw ScriptError{0, "polls is named, or not set"};
  if (settings_.contains("congestion")) {
    const auto algorithm = enum_of(settings::kCongestionNames, settings_["congestion"]);
    if (!algorithm) throw ScriptError{0, fmt::format("congestion={} is none", settings_["congestion"])};
    local.engine.settings.congestion.algorithm = *algorithm;
  }
  local.engine.settings.congestion.dcqcn.line_rate_mbps = static_cast<uint32_t>(setting("line_rate", 100'000));
  local.engine.settings.congestion.dcqcn.cnp_interval_us = static_cast<uint32_t>(setting("cnp_interval", 50));
  local.engine.settings.congestion.plb_rounds = static_cast<uint32_t>(setting("plb_rounds", 0));
  local.engine.settings.parking_frames = static_cast<uint32_t>(setting("parking", 64));
  if (settings_.contains("retransmission")) {
    const auto how = enum_of(settings::kRetransmissionNames, settings_["retransmission"]);
    if (!how) throw ScriptError{0, "retransmission is auto, selective or go-back-n"};
    local.engine.settings.retransmission = *how;
  }
  wiring_.peer.gid = Gid::from_ipv4(0x0a000002);
  wiring_.peer.mac = EthAddr{{2, 0, 0, 0, 0, 2}};
  if (setting("ip", 4) == 6) {
    local.gid = Gid{{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
    wiring_.peer.gid = Gid{{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}};
  }
  wiring_.local_qpn = kLocalQpn;
  wiring_.peer_qpn = kPeerQpn;
  endpoint_ = std::make_unique<TestEndpoint>(local);
  make_region("src", 1 << 16, kAllAccess, 1);
  make_region("dst", 1 << 16, kAllAccess, 1);
  for (const RegionRequest& r : region_requests_) make_region(r.name, r.size, r.access, r.pd);

  send_cq_ = &endpoint_->make_cq(static_cast<uint32_t>(setting("cq", 256)));
  recv_cq_ = &endpoint_->make_cq(256);
  TestQp::Options options;
  options.qpn = kLocalQpn;
  if (settings_.contains("type")) {
    const auto type = enum_of(kTypeNames, settings_["type"]);
    if (!type)
      throw ScriptError{
          0, fmt::format("type={} is none: rc, uc, ud, raw, xrc_initiator or xrc_target", settings_["type"])};
    options.type = *type;
  }
  options.cap.max_send_wr = static_cast<uint32_t>(setting("send_wr", 64));
  options.cap.max_recv_wr = static_cast<uint32_t>(setting("recv_wr", 64));
  options.cap.max_send_sge = static_cast<uint32_t>(setting("send_sge", 32));
  options.cap.max_recv_sge = static_cast<uint32_t>(setting("recv_sge", 32));
  options.cap.max_inline_data = static_cast<uint32_t>(setting("inline", 512));
  options.signal_all = setting("signal_all", 0) != 0;
  options.send_cq = send_cq_;
  options.recv_cq = recv_cq_;
  if (const auto entries = setting("srq", 0); entries != 0) {
    srq_ = &endpoint_->make_srq(static_cast<uint32_t>(entries));
    options.srq = srq_;
  }
  if (options.type == QpType::xrc_target) make_xrc_srqs(options);
  if (options.type != QpType::raw_packet) qp_ = &endpoint_->make_qp(options);
  make_handles();

  connection_.dest_qpn = kPeerQpn;
  connection_.sq_psn = static_cast<uint32_t>(setting("psn", 100));
  connection_.rq_psn = static_cast<uint32_t>(setting("peer_psn", 200));
  connection_.mtu = mtu_of(setting("mtu", 1024));
  connection_.max_rd_atomic = static_cast<uint8_t>(setting("max_rd", 4));
  connection_.max_dest_rd_atomic = static_cast<uint8_t>(setting("max_dest_rd", 4));
  connection_.min_rnr_timer = static_cast<uint8_t>(setting("min_rnr", 12));
  connection_.timeout = static_cast<uint8_t>(setting("timeout", 14));
  connection_.retry_cnt = static_cast<uint8_t>(setting("retry_cnt", 7));
  connection_.qkey = static_cast<uint32_t>(setting("qkey", 0x1234));
  connection_.rnr_retry = static_cast<uint8_t>(setting("rnr_retry", 7));
  if (settings_.contains("access")) {
    const ScriptLine nowhere{};
    connection_.access = parse_access(Words(nowhere, symbols_), settings_["access"]);
  }
  if (options.type == QpType::raw_packet) make_raw_qps(options);
  const std::string until = settings_.contains("state") ? settings_["state"] : "rts";
  if (until == "reset") return;
  qp_->to_init(connection_);
  if (until == "init") return;
  to_rtr();
  if (until == "rts") qp_->to_rts(connection_);
}

void Runner::to_rtr() {
  wire::Route route = make_route(wiring_.local, wiring_.peer);
  route.traffic_class = static_cast<uint8_t>(setting("tos", 0));
  qp_->to_rtr(connection_, route, setting("loopback", 0) != 0);
}

void Runner::note(const std::string& what) {
  trace_.push_back(fmt::format("{:>14} ns  {}", (now_ - begin_).count(), what));
}

void Runner::settle() {
  endpoint_->run(now_);
  collect();
}

void Runner::do_poll(const ScriptLine&) {
  if (!named_polls_) return;
  endpoint_->engine().poll(endpoint_->sink(), now_);
  collect();
}

// A HELLO of the engine makes `ours` its epoch. With both epochs, frames have seals.
void Runner::learn(const Frame& frame, uint32_t& epoch) {
  const auto packet = wire::parse(frame);
  if (!packet || packet->bth.opcode != wire::Opcode::hello) return;
  const auto hello = wire::Hello::load(packet->payload);
  if (!hello) return;
  // Not of a stranger beside a peer that has proven itself.
  if (&epoch == &peer_epoch_ && epoch != 0 && hello->peer_epoch != local_epoch_) return;
  epoch = hello->epoch;
  if (&epoch == &local_epoch_) symbols_.set("ours", epoch);
  if (local_epoch_ == 0 || peer_epoch_ == 0) return;
  wiring_.local_seal = wire::Seal::of(local_epoch_, peer_epoch_);
  wiring_.peer_seal = wire::Seal::of(peer_epoch_, local_epoch_);
}

void Runner::collect() {
  for (SentFrame& sent : endpoint_->sink().take()) {
    note(sent.raw ? fmt::format("> frame of {} bytes", sent.bytes.size()) : fmt::format("> {}", describe(sent.bytes)));
    learn(sent.bytes, local_epoch_);
    carry(sent);
    frames_.push_back(std::move(sent));
  }
  if (hold_completions_) return;
  while (const auto cqe = send_cq_->poll()) {
    note(fmt::format("  cqe wr={} status={}", cqe->wr_id, name_of(kStatusNames, static_cast<WcStatus>(cqe->status))));
    send_cqes_.push_back(*cqe);
  }
  while (const auto cqe = recv_cq_->poll()) {
    note(fmt::format("  rcqe wr={} status={}", cqe->wr_id, name_of(kStatusNames, static_cast<WcStatus>(cqe->status))));
    recv_cqes_.push_back(*cqe);
  }
}

// Runs the engine's deadlines on the way to `line.step` from now; with `~`, stops where the line has what it waits for.
void Runner::advance(const ScriptLine& line) {
  if (named_polls_) {
    now_ += line.step;
    return collect();
  }
  const auto arrived = [&] {
    if (!line.within) return false;
    if (line.command == ">") return !frames_.empty();
    return !(line.command == "cqe" ? send_cqes_ : recv_cqes_).empty();
  };
  const Nanos target = now_ + line.step;
  settle();
  while (!arrived()) {
    // A deadline that stays in the past must not stop the clock.
    const Nanos next = std::max(endpoint_->engine().next_deadline(), now_ + Nanos(100));
    now_ = std::min(next, target);
    settle();
    if (next >= target) return;
  }
}

}  // namespace uroce::test

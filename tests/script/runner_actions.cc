#include <fmt/format.h>

#include <cstring>

#include "tests/script/names.h"
#include "tests/script/raw_line.h"
#include "tests/script/runner.h"

namespace uroce::test {

TestRegion* Runner::region_at(uint64_t va, std::size_t length) {
  for (const auto& [name, region] : regions_) {
    if (va >= region->va() && va - region->va() + length <= region->bytes().size()) return region;
  }
  return nullptr;
}

std::byte* Runner::resolve(uint64_t va, std::size_t length) {
  TestRegion* region = region_at(va, length);
  return region == nullptr ? nullptr : region->bytes().data() + (va - region->va());
}

/// `src:1024,dst+64:8` as entries: a place, its length, and the key of the region whose name it starts with.
std::vector<Sge> Runner::parse_sges(const Words& words, const std::string& text) {
  std::vector<Sge> sges;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string item = text.substr(at, end - at);
    at = end + 1;
    const std::size_t colon = item.find(':');
    const auto va = symbols_.value(item.substr(0, colon));
    const auto length = colon == std::string::npos ? std::nullopt : symbols_.value(item.substr(colon + 1));
    const auto key = symbols_.value(item.substr(0, item.find_first_of("+-:")) + ".key");
    if (!va || !length) words.error(fmt::format("'{}' is no entry; write region+offset:length", item));
    sges.push_back({*va, static_cast<uint32_t>(*length), static_cast<uint32_t>(key.value_or(0xbad))});
  }
  return sges;
}

void Runner::do_inject(const ScriptLine& line) {
  if (is_raw_line(line)) return inject_frame(line);
  const Frame frame =
      build_frame(line, symbols_, wiring_, [this](uint64_t va, std::size_t n) { return resolve(va, n); });
  note(fmt::format("< {}", describe(frame)));
  learn(frame, peer_epoch_);
  endpoint_->offer_to_rules(frame, now_, transport::FrameTakers::all);
  endpoint_->inject(frame, now_);
}

void Runner::do_post(const ScriptLine& line) {
  if (is_raw_line(line)) return post_frame(line);
  Words words(line, symbols_);
  SendRequest request;
  const std::string operation = words.bare();
  const auto opcode = enum_of(kWrOpcodeNames, operation);
  if (!opcode) words.error(fmt::format("'{}' is no send operation", operation));
  request.opcode = *opcode;
  request.wr_id = words.number_or("wr", next_send_wr_);
  next_send_wr_ = request.wr_id + 1;
  if (!words.flag("unsignaled")) request.flags |= SendFlag::signaled;
  if (words.flag("solicited")) request.flags |= SendFlag::solicited;
  if (words.flag("fence")) request.flags |= SendFlag::fence;
  const bool atomic = *opcode == WrOpcode::fetch_add || *opcode == WrOpcode::compare_swap;
  std::vector<Sge> sges;
  if (*opcode == WrOpcode::flush) {
    request.flush.length = static_cast<uint32_t>(words.number_or("len", 0));
    request.flush.placement = PlacementFlags::from_bits(static_cast<uint32_t>(words.number_or("plt", 1)));
    request.flush.scope = static_cast<FlushScope>(words.number_or("sel", 0));
  } else if (const auto text = words.text("sge")) {
    sges = parse_sges(words, *text);
  } else if (const auto length = words.number_or("len", atomic ? 8 : 0); length != 0) {
    sges.push_back(regions_.at("src")->sge(0, static_cast<uint32_t>(length)));
  }
  if (const auto key = words.number("lkey")) {
    for (Sge& sge : sges) sge.lkey = static_cast<uint32_t>(*key);
  }
  if (words.flag("inline")) {
    request.flags |= SendFlag::inline_data;
    std::byte* bytes = sges.empty() ? nullptr : resolve(sges[0].addr, sges[0].length);
    if (bytes == nullptr && !sges.empty()) words.error("inline data must lie in a region");
    if (bytes != nullptr) request.inline_data = {bytes, sges[0].length};
  } else {
    request.sges = sges;
  }
  request.imm_or_key = static_cast<uint32_t>(words.number_or("imm", words.number_or("inv", 0)));
  request.remote_addr = words.number_or("va", 0x5000);
  request.rkey = static_cast<uint32_t>(words.number_or("rkey", 0x77));
  request.compare_add = words.number_or("compare", words.number_or("add", 0));
  request.swap = words.number_or("swap", 0);
  request.remote_srqn = static_cast<uint32_t>(words.number_or("srq", 0x5a5));
  request.ah = static_cast<uint32_t>(words.number_or("ah", *symbols_.value("peer")));
  request.remote_qpn = static_cast<uint32_t>(words.number_or("qp", wiring_.peer_qpn));
  request.remote_qkey = static_cast<uint32_t>(words.number_or("qkey", connection_.qkey));
  const uint64_t times = words.number_or("times", 1);
  words.done();
  for (uint64_t i = 0; i < times; ++i) {
    if (!qp_->post_send(request)) words.error("the send queue is full");
    note(fmt::format("  post {} wr={}", operation, request.wr_id));
    next_send_wr_ = ++request.wr_id;
  }
}

void Runner::do_recv(const ScriptLine& line) {
  Words words(line, symbols_);
  RecvRequest request;
  request.wr_id = words.number_or("wr", next_recv_wr_);
  std::vector<Sge> sges;
  if (const auto text = words.text("sge")) {
    sges = parse_sges(words, *text);
  } else if (const auto length = words.number_or("len", 4096); length != 0) {
    sges.push_back(regions_.at("dst")->sge(0, static_cast<uint32_t>(length)));
  }
  if (const auto key = words.number("lkey")) {
    for (Sge& sge : sges) sge.lkey = static_cast<uint32_t>(*key);
  }
  request.sges = sges;
  const uint64_t times = words.number_or("times", 1);
  const std::string to = words.text("to").value_or("");
  const auto queue = xrc_srqs_.find(to);
  const auto raw = raw_qps_.find(to);
  TestQp& qp = raw == raw_qps_.end() ? *qp_ : *raw->second;
  words.done();
  for (uint64_t i = 0; i < times; ++i) {
    const bool posted = queue == xrc_srqs_.end() ? qp.post_recv(request) : queue->second->post_recv(request);
    if (!posted) words.error("the receive queue is full");
    next_recv_wr_ = ++request.wr_id;
  }
}

QpState Runner::state_named(const Words& words, const std::string& name) const {
  const auto state = enum_of(kStateNames, name);
  if (!state) words.error(fmt::format("'{}' is no state", name));
  return *state;
}

void Runner::do_modify(const ScriptLine& line) {
  Words words(line, symbols_);
  const std::string name = words.bare();
  const bool notify = words.flag("notify");
  words.done();
  note(fmt::format("  modify {}", name));
  // It is the engine's last time that counts, unless control says one.
  if (named_polls_) endpoint_->engine().run([](transport::Engine&) {}, now_);
  if (name == "connect") {
    qp_->connect(connection_, make_route(wiring_.local, wiring_.peer));
  } else if (name == "rtr" && qp_->state() == QpState::init) {
    to_rtr();
  } else if (name == "rts" && qp_->state() == QpState::rtr) {
    qp_->to_rts(connection_);
  } else {
    qp_->set_state(state_named(words, name), notify);
  }
}

void Runner::do_join(const ScriptLine& line) {
  Words(line, symbols_).done();
  if (line.command == "leave") return endpoint_->engine().groups().leave(group(), qp_->qpn());
  if (!endpoint_->engine().groups().join(group(), qp_->qpn()))
    throw ScriptError{line.number, "the engine has no room for it"};
}

void Runner::do_deregister(const ScriptLine& line) {
  Words words(line, symbols_);
  const std::string name = words.bare();
  words.done();
  if (!regions_.contains(name)) words.error(fmt::format("'{}' is no region", name));
  regions_[name]->deregister();
}

void Runner::do_poke(const ScriptLine& line) {
  Words words(line, symbols_);
  const auto va = symbols_.value(words.bare());
  std::byte* at = va ? resolve(*va, 8) : nullptr;
  const auto value = words.number("u64");
  words.done();
  if (at == nullptr || !value) words.error("write: poke region+offset u64=value");
  std::memcpy(at, &*value, 8);
}

void Runner::do_arm(const ScriptLine& line) {
  Words words(line, symbols_);
  const std::string which = words.bare();
  const bool solicited = words.flag("solicited");
  words.done();
  TestCq* cq = which == "send" ? send_cq_ : which == "recv" ? recv_cq_ : nullptr;
  if (cq == nullptr) words.error("write: arm send|recv [solicited]");
  cq->arm(solicited ? queues::Arm::solicited : queues::Arm::any);
}

void Runner::do_room(const ScriptLine& line) {
  Words words(line, symbols_);
  const std::string room = words.bare();
  words.done();
  endpoint_->sink().set_room(room == "all" ? SIZE_MAX : std::stoul(room));
}

void Runner::do_drop_srq(const ScriptLine& line) {
  Words words(line, symbols_);
  const auto queue = xrc_srqs_.find(words.bare());
  words.done();
  if (queue == xrc_srqs_.end()) words.error("write: drop_srq queue|second|alien, with `set type=xrc_target`");
  endpoint_->engine().detach_srq(queue->second->srq());
}

void Runner::do_srq_limit(const ScriptLine& line) {
  Words words(line, symbols_);
  const std::string limit = words.bare();
  words.done();
  if (srq_ == nullptr) words.error("there is no SRQ; write 'set srq=16' first");
  srq_->set_limit(static_cast<uint32_t>(std::stoul(limit)));
}

}  // namespace uroce::test

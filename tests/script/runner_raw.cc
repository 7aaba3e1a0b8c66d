// Raw packet queue pairs and their receive rules.
#include <fmt/format.h>

#include <algorithm>

#include "tests/script/raw_line.h"
#include "tests/script/runner.h"

namespace uroce::test {

namespace {

constexpr const char* kReceivers[] = {"first", "second", "third", "fourth"};

}  // namespace

// The first sends. All have completions in the same queues.
void Runner::make_raw_qps(TestQp::Options options) {
  for (const char* name : kReceivers) {
    TestQp& qp = endpoint_->make_qp(options);
    raw_qps_[name] = &qp;
    symbols_.set(name, qp.qpn());
    if (options.qpn++ != wiring_.local_qpn) qp.connect(connection_, {});
  }
  qp_ = raw_qps_["first"];
}

void Runner::do_rule(const ScriptLine& line) {
  Words words(line, symbols_);
  const std::string name = words.bare();
  const FlowRule rule = parse_rule(words, wiring_);
  const RxHash hash = parse_hash(words);
  const std::string to = words.text("to").value_or("first");
  words.done();
  const auto pattern = wire::make_pattern(rule);
  if (!pattern) words.error(pattern.error().text);
  transport::IndirectionTable table{.hash = hash};
  for (std::size_t at = 0; at < to.size();) {
    const std::size_t end = std::min(to.find(',', at), to.size());
    const auto qp = raw_qps_.find(to.substr(at, end - at));
    if (qp == raw_qps_.end()) words.error(fmt::format("'{}' is no raw packet queue pair", to.substr(at, end - at)));
    table.qpns.push_back(qp->second->qpn());
    at = end + 1;
  }
  transport::FlowEntry entry{.id = ++last_rule_,
                             .qpn = table.qpns[0],
                             .type = rule.type,
                             .priority = rule.priority,
                             .tag = rule.tag,
                             .pattern = *pattern};
  if (table.qpns.size() > 1) entry.table = std::make_shared<transport::IndirectionTable>(table);
  rules_[name] = entry.id;
  if (!endpoint_->engine().flows().add(entry)) words.error("the engine has no room for it");
}

void Runner::do_drop_rule(const ScriptLine& line) {
  Words words(line, symbols_);
  const auto rule = rules_.find(words.bare());
  words.done();
  if (rule == rules_.end()) words.error("write: drop_rule NAME of a rule");
  endpoint_->engine().flows().remove(rule->second);
}

void Runner::post_frame(const ScriptLine& line) {
  Words words(line, symbols_);
  words.flag("FRAME");
  SendRequest request{.wr_id = words.number_or("wr", next_send_wr_), .flags = SendFlag::signaled};
  const Frame frame = build_raw_frame(words, wiring_);
  words.done();
  std::ranges::copy(frame, regions_.at("src")->bytes().begin());
  const Sge sge = regions_.at("src")->sge(0, static_cast<uint32_t>(frame.size()));
  request.sges = {&sge, 1};
  if (!qp_->post_send(request)) words.error("the send queue is full");
  next_send_wr_ = request.wr_id + 1;
}

void Runner::inject_frame(const ScriptLine& line) {
  Words words(line, symbols_);
  words.flag("FRAME");
  const Frame frame = build_raw_frame(words, wiring_);
  words.done();
  note(fmt::format("< frame of {} bytes", frame.size()));
  endpoint_->offer_to_rules(frame, now_, transport::FrameTakers::all);
}

void Runner::carry(const SentFrame& sent) {
  if (sent.is_for_sniffers()) endpoint_->offer_to_rules(sent.bytes, now_, transport::FrameTakers::sniffers);
  if (sent.raw && sent.loopback) endpoint_->offer_to_rules(sent.bytes, now_, transport::FrameTakers::rule);
}

}  // namespace uroce::test

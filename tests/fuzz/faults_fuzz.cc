// The language of fault rules, and rules at work. The input is text, or words of the language put together at random,
// and then frames. A rule that is read is read again from its own text; frames that go on are frames.
#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/comma_list.h"
#include "faults/calls.h"
#include "faults/frame_faults.h"
#include "faults/language.h"
#include "faults/words.h"
#include "tests/fuzz/input.h"
#include "tests/support/encode.h"
#include "tests/support/packet_text.h"

namespace {

using namespace uroce;
using namespace uroce::faults;
using test::Input;
using test::require;

constexpr std::size_t kLongest = 2048;

std::string bytes_of(Input& input) {
  std::string out(input.below(24), ' ');
  for (char& c : out) c = input.take<char>();
  return out;
}

/// One of the values that the reference shows, or anything.
std::string value_of(std::string_view examples, Input& input) {
  const auto all = split_at_commas(examples);
  if (all.empty() || input.below(8) == 0) return bytes_of(input);
  std::string value(all[input.below(static_cast<uint32_t>(all.size()))]);
  value.erase(0, value.find_first_not_of(' '));
  return value;
}

std::string rule_of(Input& input) {
  static constexpr std::array<std::string_view, 11> kValues = {
      "5ms", "payload", "header", "icrc", "ecn", "1Gbit", "access", "reject", "EBUSY", "gid_change", "3"};
  const auto actions = action_rows();
  const ActionRow& action = actions[input.below(static_cast<uint32_t>(actions.size()))];
  std::string line(action.name);
  if (!action.value.empty()) {
    line += ' ';
    line += kValues[input.below(kValues.size())];
  }
  for (uint32_t left = input.below(5); left > 0; --left) {
    const auto words = word_rows();
    const WordRow& word = words[input.below(static_cast<uint32_t>(words.size()))];
    line += input.below(6) == 0 ? " rx" : " " + std::string(word.name) + "=" + value_of(word.value, input);
  }
  return line;
}

std::string text_of(Input& input) {
  std::string text;
  for (uint32_t left = 1 + input.below(6); left > 0; --left)
    text += (input.below(4) == 0 ? bytes_of(input) : rule_of(input)) + "\n";
  return text;
}

void check_reading(std::string_view text) {
  const auto rules = parse_rules(text, "input");
  if (!rules) {
    require(rules.error().code == EINVAL && rules.error().text.starts_with("input:"), "an error without its line");
    require(rules.error().text.size() < 2048, "an error of any length");
    return;
  }
  for (const Rule& rule : *rules) {
    const auto again = parse_rule(rule.text);
    require(again && again->text == rule.text && again->subject == rule.subject, "a rule's text is another rule");
  }
}

class Qps final : public QpView {
 public:
  std::optional<uint32_t> sender_of(Way way, const wire::Packet& packet) override {
    return (packet.bth.dest_qpn & 1) == 0 ? std::optional(way == Way::tx ? 0x12u : 0x34u) : std::nullopt;
  }
};

std::vector<std::byte> frame_of(Input& input) {
  static constexpr std::array<std::string_view, 6> kFrames = {
      "RC SEND_ONLY qp=0x12 psn=5 payload=64",
      "RC READ_REQUEST qp=0x12 psn=5 va=0 rkey=1 len=8",
      "RC ACK qp=0x34 psn=5 syndrome=ack credits=31 msn=1",
      "UC SEND_ONLY qp=0x13 psn=1 payload=3",
      "UD SEND_ONLY qp=1 psn=1 qkey=0x80010000 src_qp=1 payload=256",
      "RC SEND_ONLY qp=0x12 psn=6 payload=0"};
  std::vector<std::byte> out(kLongest);
  const auto text = test::from_text(kFrames[input.below(kFrames.size())]);
  require(text.has_value(), "a frame of the test is wrong");
  std::vector<std::byte> payload(text->payload_length);
  input.fill(payload);
  wire::Route route{.sgid = Gid::from_ipv4(0x0a000002), .dgid = Gid::from_ipv4(0x0a000001)};
  out.resize(test::encode(out, text->packet, route, payload));
  return out;
}

void check_work(std::string_view text, Input& input) {
  RuleSet set(1);
  if (!set.add(text, "input", Nanos(0))) return;
  FaultCounters counters;
  Qps qps;
  FrameFaults faults(set.all(), "uroce0", kLongest, counters, &qps);
  Nanos now{0};
  for (uint32_t left = input.below(32); left > 0; --left) {
    const auto way = static_cast<Way>(input.below(3));
    auto frame = frame_of(input);
    const std::size_t length = frame.size();
    if (faults.take(way, frame, now)) require(frame.size() == length, "a frame has another length");
    faults.release(way, now, [&](std::span<const std::byte> kept) {
      require(!kept.empty() && kept.size() <= kLongest, "a frame that was kept has no length");
      return input.below(8) != 0;
    });
    require(faults.take_stall() >= Nanos(0), "an engine stands still for less than no time");
    if (input.below(4) == 0) (void)faults.take_ended();
    now += Nanos(std::chrono::microseconds(input.below(2000)));
    (void)fate_of(set.all(), {.op = static_cast<message::Op>(input.below(90)), .command = "test"}, now);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  Input input({data, size});
  const bool as_text = input.take<uint8_t>() % 4 == 0;
  std::string text;
  if (as_text) {
    while (!input.empty()) text += input.take<char>();
  } else {
    text = text_of(input);
  }
  check_reading(text);
  check_work(text, input);
  return 0;
}

#include "faults/language.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <string>

#include "faults/calls.h"
#include "faults/words.h"
#include "wire/opcode.h"

namespace uroce::faults {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

std::string error_of(std::string_view line) {
  const auto rule = parse_rule(line);
  if (rule) return "no error";
  EXPECT_EQ(rule.error().code, EINVAL);
  return rule.error().text;
}

/// Whether the error begins with the word and names what is allowed.
void expect_error(std::string_view line, std::string_view word, std::string_view allowed) {
  const std::string text = error_of(line);
  EXPECT_TRUE(text.starts_with("'" + std::string(word) + "': ")) << line << ": " << text;
  EXPECT_TRUE(text.contains(allowed)) << line << ": " << text;
}

TEST(FaultLanguage, ReadsEveryWord) {
  const auto rule = parse_rule(
      "corrupt payload rx device=uroce1 qpn=0x12 peer=10.0.0.2,2001:db8::/32 opcode=send_only psn=0xfffff0-5 size=1-64 "
      "nth=3-5 probability=0.25 count=2 seed=0x7 icrc=right at=9  # why");
  ASSERT_TRUE(rule) << rule.error().text;
  EXPECT_EQ(rule->action, Action::corrupt);
  EXPECT_EQ(rule->part, Part::payload);
  EXPECT_TRUE(rule->icrc_is_right);
  EXPECT_EQ(rule->at, 9);
  EXPECT_EQ(rule->direction, Direction::rx);
  EXPECT_EQ(rule->device, "uroce1");
  EXPECT_EQ(rule->qpn, 0x12);
  ASSERT_EQ(rule->peers.size(), 2);
  EXPECT_EQ(rule->peers[1].bits, 32);
  EXPECT_TRUE(rule->opcodes->test(static_cast<std::size_t>(wire::Opcode::rc_send_only)));
  EXPECT_EQ(rule->psn->first, 0xfffff0);
  EXPECT_EQ(rule->psn->last, 5);
  EXPECT_EQ(rule->size->last, 64);
  EXPECT_EQ(rule->nth->first, 3);
  EXPECT_EQ(rule->probability, 0.25);
  EXPECT_EQ(rule->count, 2);
  EXPECT_EQ(rule->seed, 7);
  EXPECT_TRUE(rule->text.ends_with("icrc=right at=9")) << rule->text;
}

TEST(FaultLanguage, ReadsEveryAction) {
  EXPECT_EQ(parse_rule("drop")->action, Action::drop);
  EXPECT_EQ(parse_rule("delay 2.5ms tx")->delay, microseconds(2500));
  EXPECT_EQ(parse_rule("duplicate every=10")->every, 10);
  EXPECT_EQ(parse_rule("reorder rx")->overtakers, 1);
  EXPECT_EQ(parse_rule("reorder 3 rx")->overtakers, 3);
  EXPECT_EQ(parse_rule("reorder qpn=5")->overtakers, 1);
  EXPECT_EQ(parse_rule("corrupt header")->part, Part::header);
  EXPECT_EQ(parse_rule("corrupt icrc")->part, Part::icrc);
  EXPECT_EQ(parse_rule("mark ecn")->action, Action::mark);
  EXPECT_EQ(parse_rule("throttle 2.5Mbit")->bits_per_s, 2500000);
  EXPECT_EQ(parse_rule("partition peer=10.0.0.0/24")->peers[0].bits, 24);
}

TEST(FaultLanguage, RulesForCompletions) {
  const auto rule =
      parse_rule("hold 5ms device=uroce1 object=3 nth=2-4 probability=0.5 count=2 seed=1 after=1s for=2s");
  ASSERT_TRUE(rule) << rule.error().text;
  EXPECT_EQ(rule->subject, Subject::completions);
  EXPECT_EQ(rule->delay, milliseconds(5));
  EXPECT_EQ(rule->object, 3);
  EXPECT_EQ(parse_rule("batch 4 every=2")->together, 4);
  EXPECT_EQ(parse_rule("shuffle 8 seed=3")->together, 8);
  EXPECT_EQ(parse_rule("late_event 1s")->delay, std::chrono::seconds(1));
  expect_error("hold", "hold", "TIME");
  expect_error("batch 1", "1", "2 to 1000");
  expect_error("hold 5ms rx", "rx", "device=, object=, nth=");
  expect_error("late_event 1s qpn=5", "qpn=5", "device=, object=");
}

TEST(FaultLanguage, OpcodesHaveTransportsBeginningsAndKindsOfAcks) {
  const auto set = [](std::string_view words) { return parse_rule("drop opcode=" + std::string(words)); };
  const auto has = [](const Result<Rule>& rule, wire::Opcode opcode) {
    return rule->opcodes->test(static_cast<std::size_t>(opcode));
  };
  EXPECT_TRUE(has(set("SEND_ONLY"), wire::Opcode::rc_send_only));
  EXPECT_TRUE(has(set("send_only"), wire::Opcode::ud_send_only));
  EXPECT_FALSE(has(set("uc_send_only"), wire::Opcode::rc_send_only));
  EXPECT_TRUE(has(set("uc_send_only"), wire::Opcode::uc_send_only));
  EXPECT_TRUE(has(set("write*,cnp"), wire::Opcode::rc_write_last_imm));
  EXPECT_TRUE(has(set("write*,cnp"), wire::Opcode::cnp));
  EXPECT_FALSE(has(set("write*,cnp"), wire::Opcode::rc_read_request));
  EXPECT_TRUE(set("nak")->naks);
  EXPECT_FALSE(has(set("nak"), wire::Opcode::rc_ack));
  EXPECT_TRUE(set("rnr,ack")->rnr_naks);
}

TEST(FaultLanguage, RulesOfCallsHaveWordsOfTheirOwn) {
  const auto rule = parse_rule("fail EBUSY call=create_qp,rdma_* program=my_test,4711 device=uroce1 nth=2 seed=1");
  ASSERT_TRUE(rule) << rule.error().text;
  EXPECT_EQ(rule->action, Action::fail);
  EXPECT_EQ(rule->subject, Subject::calls);
  EXPECT_EQ(rule->error, EBUSY);
  EXPECT_EQ(rule->programs, (std::vector<std::string>{"my_test", "4711"}));
  EXPECT_EQ(parse_rule("fail nth=3")->error, ENOMEM);
  EXPECT_EQ(parse_rule("delay 5ms call=modify_qp")->subject, Subject::calls);
  EXPECT_EQ(parse_rule("delay 5ms qpn=7")->subject, Subject::frames);
  expect_error("fail ENOMME", "ENOMME", "it must be ENOMEM");
  expect_error("fail rx", "rx", "behind the action may stand device=, call=, program=");
  expect_error("fail EBUSY rx", "rx", "behind the action may stand device=, call=, program=");
  expect_error("fail call=create_pq", "call=create_pq", "there are alloc_pd, create_comp_channel");
  expect_error("fail call=", "call=", "there are alloc_pd");
  expect_error("fail program=", "program=", "name");
  expect_error("fail qpn=3", "qpn=3", "call=");
  expect_error("drop call=create_qp", "call=create_qp", "rx, tx, both");
  expect_error("delay 5ms call=create_qp qpn=3", "qpn=3", "call=");
}

TEST(FaultLanguage, RulesOfEventsHaveWordsOfTheirOwn) {
  const auto rule = parse_rule("raise qp_fatal device=uroce0 object=0x12 after=5ms count=3");
  ASSERT_TRUE(rule) << rule.error().text;
  EXPECT_EQ(rule->subject, Subject::events);
  EXPECT_EQ(rule->event, AsyncEventType::qp_fatal);
  EXPECT_EQ(rule->object, 0x12);
  EXPECT_EQ(rule->after, milliseconds(5));
  EXPECT_FALSE(parse_rule("raise completion")->event);
  EXPECT_EQ(parse_rule("link_down 2s after=1s")->length, std::chrono::seconds(2));
  expect_error("raise", "raise", "EVENT");
  expect_error("raise qp_fatl", "qp_fatl", "it must be completion, cq_err, qp_fatal");
  expect_error("raise qp_fatal qpn=3", "qpn=3", "behind the action may stand device=, object=, gid=, count=, after=");
  expect_error("link_down 2s count=2", "link_down", "device= and after= alone");
  const auto gone = parse_rule("gid_gone 2s gid=10.0.0.2,fe80::/64");
  EXPECT_EQ(gone->length, std::chrono::seconds(2));
  EXPECT_EQ(gone->gids.size(), 2);
  expect_error("gid_gone 2s object=2", "gid_gone", "gid=, device= and after= alone");
  expect_error("gid_gone 2s gid=uroce0", "gid=uroce0", "uroce0");
  expect_error("link_down 2s gid=10.0.0.2", "gid=", "only gid_gone has it");
}

TEST(FaultLanguage, AnswersStallsAndMessagesOfConnections) {
  EXPECT_EQ(parse_rule("answer rnr rx")->answer, Answer::rnr);
  EXPECT_EQ(parse_rule("answer reject reason=3")->reason, 3);
  EXPECT_EQ(parse_rule("answer reject")->reason, 28);
  EXPECT_EQ(parse_rule("stall 5ms")->delay, milliseconds(5));
  EXPECT_EQ(parse_rule("break rx")->action, Action::end_qp);
  const auto rule = parse_rule("drop cm=req,sidr_rep for=2s");
  EXPECT_TRUE(rule->cm->test(0x10));
  EXPECT_TRUE(rule->cm->test(0x18));
  EXPECT_EQ(rule->cm->count(), 2);
  expect_error("answer", "answer", "rnr, psn, invalid");
  expect_error("answer nak", "nak", "rnr, psn, invalid");
  expect_error("answer rnr reason=3", "reason=", "only answer reject");
  expect_error("drop cm=reqq", "cm=reqq", "it must be req, mra");
}

TEST(FaultCalls, ARuleChoosesByCallDeviceAndProgram) {
  const MadeCall call{.op = message::Op::create_qp, .device = "uroce0", .command = "my_test", .pid = 4711};
  const auto is_chosen = [&](std::string_view words) { return chooses(*parse_rule(words), call); };
  for (const std::string_view words : {"fail", "fail call=create_qp", "fail call=create*", "fail device=uroce0",
                                       "fail program=my_test", "fail program=other,4711"}) {
    EXPECT_TRUE(is_chosen(words)) << words;
  }
  for (const std::string_view words : {"fail call=create_cq", "fail device=uroce1", "fail program=my"}) {
    EXPECT_FALSE(is_chosen(words)) << words;
  }
  EXPECT_FALSE(chooses(*parse_rule("fail"), {.op = message::Op::modify_qp})) << "it makes no object";
  EXPECT_FALSE(chooses(*parse_rule("fail call=*"), {.op = message::Op::destroy})) << "it cannot fail";
}

TEST(FaultCalls, DelaysAddUpUntilARuleLetsTheCallFail) {
  RuleSet rules(1);
  ASSERT_TRUE(rules.add("drop\ndelay 1ms call=*\ndelay 2ms call=*\nfail EBUSY nth=2\ndelay 4ms call=*", "", Nanos(0)));
  const MadeCall call{.op = message::Op::create_qp};
  const CallFate first = fate_of(rules.all(), call, Nanos(1)), second = fate_of(rules.all(), call, Nanos(1));
  EXPECT_EQ(first.delay, milliseconds(7));
  EXPECT_EQ(first.error, 0);
  EXPECT_EQ(second.delay, milliseconds(3));
  EXPECT_EQ(second.error, EBUSY);
  EXPECT_EQ(second.text, "fault rule 4 lets it fail: fail EBUSY nth=2");
}

TEST(FaultLanguage, ErrorsNameTheWordAndWhatIsAllowed) {
  expect_error("lose rx", "lose", "drop, delay, duplicate, reorder, corrupt, mark, throttle, partition");
  expect_error("drop rx nht=3", "nht=3", "rx, tx, both, device=, qpn=, peer=");
  expect_error("drop rx 3", "3", "behind the action may stand");
  expect_error("drop nth=0", "nth=0", "at least");
  expect_error("drop nth=5-3", "nth=5-3", "before its beginning");
  expect_error("drop nth=2 nth=3", "nth=3", "already");
  expect_error("drop rx tx", "tx", "both");
  expect_error("drop qpn=0x1000000", "qpn=0x1000000", "from 0 to 16777215");
  expect_error("drop peer=there", "peer=there", "address");
  expect_error("drop peer=", "peer=", "address");
  expect_error("drop opcode=sned", "opcode=sned", "send_only");
  expect_error("drop opcode=", "opcode=", "send_only");
  expect_error("drop probability=2", "probability=2", "1 at most");
  expect_error("drop probability=-0.1", "probability=-0.1", "above 0");
  expect_error("drop nth=3 every=2", "every=", "not both");
  expect_error("drop at=3", "at=", "only corrupt");
  expect_error("drop icrc=right", "icrc=", "only corrupt");
  expect_error("corrupt icrc icrc=right", "icrc=", "leave the word out");
  expect_error("corrupt payload icrc=good", "icrc=good", "right or wrong");
  expect_error("corrupt rx", "corrupt", "payload, header or icrc");
  expect_error("corrupt body", "body", "payload, header or icrc");
  expect_error("delay 5 rx", "5", "ns, us, ms, s");
  expect_error("delay 61s", "61s", "60s at most");
  expect_error("delay -1ms", "-1ms", "60s at most");
  expect_error("delay rx", "delay", "TIME");
  expect_error("mark", "mark", "ecn");
  expect_error("mark red", "red", "ecn");
  expect_error("reorder 0", "0", "from 1 to 1000");
  expect_error("throttle 1G", "1G", "Gbit");
  expect_error("throttle 0kbit", "0kbit", "1kbit");
  expect_error("partition", "partition", "peer=");
  expect_error("partition tx peer=10.0.0.2", "partition", "drop");
  EXPECT_TRUE(error_of("").contains("begins with its action"));
  EXPECT_TRUE(error_of("drop " + std::string(2000, 'x')).contains("1024"));
}

TEST(FaultLanguage, ErrorsOfAFileNameItsLine) {
  const auto rules = parse_rules("# first\n\ndrop rx nth=1\n  delay 1ms # last\r\n", "file");
  ASSERT_TRUE(rules) << rules.error().text;
  EXPECT_EQ(rules->size(), 2);
  const auto wrong = parse_rules("drop\n\n\tdrop wx\n", "file");
  ASSERT_FALSE(wrong);
  EXPECT_TRUE(wrong.error().text.starts_with("file:3: 'wx': ")) << wrong.error().text;
}

TEST(FaultLanguage, TheReferenceHasEveryWord) {
  for (const std::string_view word :
       {"`drop`", "`partition`", "`rx`", "`qpn=`", "`seed=`", "`at=`", "`fail`", "`raise`", "`call=`"}) {
    EXPECT_TRUE(reference().contains(word)) << word;
  }
}

}  // namespace
}  // namespace uroce::faults

// The parts that decide about a connection, each without the others: how a step changes the connection, and what it
// returns.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "cm/ib/active_side.h"
#include "cm/ib/closing.h"
#include "cm/ib/ib_cm.h"
#include "cm/ib/passive_side.h"
#include "cm/ib/repeating.h"

namespace uroce::cm {
namespace {

using Keys = CmOutcome::Keys;
using Timer = CmOutcome::Timer;

const Gid kOurs = Gid::from_ipv4(0x0a000001);
const Gid kPeer = Gid::from_ipv4(0x0a000002);
constexpr uint64_t kService = 0x1060001;

/// "REQ", "reply" and the like, of what is to be carried out.
std::vector<std::string> names_of(CmActions& actions) {
  static constexpr const char* kEvents[] = {"request",      "reply",       "established",   "rejected",
                                            "disconnected", "unreachable", "timewait_exit", "withdrawn"};
  static constexpr const char* kMads[] = {"REQ", "MRA", "REJ", "REP", "RTU", "DREQ", "DREP", "SIDR_REQ", "SIDR_REP"};
  std::vector<std::string> names;
  for (const CmAction& action : actions) {
    if (const auto* const mad = std::get_if<OutgoingMad>(&action)) {
      names.emplace_back(kMads[static_cast<std::size_t>(parse_header(mad->mad)->attribute) -
                               static_cast<std::size_t>(CmAttribute::req)]);
    } else if (const auto* const event = std::get_if<CmMessage>(&action)) {
      names.emplace_back(kEvents[static_cast<std::size_t>(event->kind)]);
    } else {
      names.emplace_back("arrival");
    }
  }
  return names;
}
using Names = std::vector<std::string>;

CmConnection active_connection() {
  CmConnection c;
  c.active = true;
  c.id = 5;
  c.transaction_id = 77;
  c.request = {.service_id = kService, .path = {.sgid = kOurs, .dgid = kPeer}, .qpn = 0x11, .psn = 100};
  c.local_qpn = c.request.qpn;
  c.request.max_cm_retries = c.retries_left = 0;
  return c;
}

CmConnection passive_connection() {
  CmConnection c;
  c.id = 6;
  const CmRequest request{.service_id = kService, .path = {.sgid = kOurs, .dgid = kPeer}, .qpn = 0x22, .psn = 200};
  CmActions actions;
  const CmArrival arrival{.request = request, .remote_id = 9, .transaction_id = 78};
  EXPECT_EQ(passive_side::on_arrival(c, arrival, actions).keys, Keys::enter);
  EXPECT_EQ(names_of(actions), Names{"request"});
  return c;
}

TEST(CmParts, TheActiveSide) {
  CmContext ctx({.ca_guid = 1, .seed = 1});
  CmConnection c = active_connection();
  CmActions asked, told, answered;
  const CmOutcome asks = active_side::connect(ctx, c, asked);
  EXPECT_EQ(names_of(asked), Names{"REQ"});
  EXPECT_EQ(asks.timer, Timer::start);
  EXPECT_EQ(asks.after, c.interval);
  EXPECT_EQ(asks.keys, Keys::keep);

  const RepMad rep{.local_id = 9, .remote_id = c.id, .qpn = 0x22, .psn = 200};
  const MadHeader header{.attribute = CmAttribute::rep, .transaction_id = 77};
  EXPECT_TRUE(active_side::expects_reps(c, kPeer));
  EXPECT_FALSE(active_side::expects_reps(c, kOurs));
  const CmOutcome replied = active_side::on_rep(ctx, c, header, rep, told);
  EXPECT_EQ(names_of(told), Names{"reply"});
  EXPECT_EQ(replied.timer, Timer::stop);
  EXPECT_EQ(replied.keys, Keys::enter);
  EXPECT_EQ(c.remote_qpn, 0x22u);

  const auto ready = active_side::ready(ctx, c, {}, answered);
  ASSERT_TRUE(ready);
  EXPECT_EQ(names_of(answered), Names{"RTU"});
  EXPECT_EQ(ready->timer, Timer::keep);
  EXPECT_FALSE(active_side::ready(ctx, c, {}, answered)) << "it is established";
}

/// The state of a connection is a value: its copy goes on as itself would.
TEST(CmParts, ACopyOfAConnectionGoesOnLikeIt) {
  CmContext ctx({.ca_guid = 1, .seed = 1});
  CmConnection c = passive_connection();
  const auto steps = [&ctx](CmConnection& one) {
    CmActions actions;
    EXPECT_TRUE(passive_side::accept(ctx, one, {.qpn = 0x12, .psn = 300}, actions));
    repeating::on_timer(ctx, one, actions);
    const RtuMad rtu{.local_id = 9, .remote_id = one.id, .private_data = {}};
    EXPECT_EQ(passive_side::on_rtu(ctx, one, rtu, actions).timer, Timer::stop);
    EXPECT_EQ(names_of(actions), (Names{"REP", "REP", "established"}));
    return std::get<OutgoingMad>(*actions.begin()).mad;
  };
  CmConnection copy = c;
  EXPECT_EQ(steps(copy), steps(c));
}

TEST(CmParts, DestroyingDoesWhatTheStateNeeds) {
  struct Row {
    CmState state;
    Names sent;
    CmState then;
    Timer timer;
  };
  for (const auto& [state, sent, then, timer] : {Row{CmState::req_sent, {"REJ"}, CmState::closed, Timer::stop},
                                                 Row{CmState::req_received, {"REJ"}, CmState::closed, Timer::start},
                                                 Row{CmState::rep_received, {"REJ"}, CmState::closed, Timer::start},
                                                 Row{CmState::rep_sent, {"REJ"}, CmState::timewait, Timer::start},
                                                 Row{CmState::established, {"DREQ"}, CmState::dreq_sent, Timer::start},
                                                 Row{CmState::dreq_sent, {}, CmState::dreq_sent, Timer::keep},
                                                 Row{CmState::timewait, {}, CmState::timewait, Timer::keep},
                                                 Row{CmState::closed, {}, CmState::closed, Timer::keep}}) {
    CmContext ctx({.ca_guid = 1, .seed = 1});
    CmConnection c = active_connection();
    c.state = state;
    CmActions actions;
    EXPECT_EQ(closing::destroy(ctx, c, actions).timer, timer) << name(state);
    EXPECT_EQ(names_of(actions), sent) << name(state);
    EXPECT_EQ(c.state, then) << name(state);
    EXPECT_FALSE(c.owned);
  }
}

/// A connection without an owner has no events.
TEST(CmParts, EndsInSilenceWithoutAnOwner) {
  CmContext ctx({.ca_guid = 1, .seed = 1});
  for (const bool owned : {true, false}) {
    CmConnection c = active_connection();
    c.state = CmState::dreq_sent;
    c.owned = owned;
    CmActions actions;
    EXPECT_EQ(repeating::on_timer(ctx, c, actions).timer, Timer::start);
    EXPECT_EQ(c.state, CmState::timewait);
    EXPECT_EQ(repeating::on_timer(ctx, c, actions).keys, Keys::free);
    EXPECT_EQ(names_of(actions), owned ? (Names{"disconnected", "timewait_exit"}) : Names{});
  }
}

/// The most actions of a step: the peer answers one connection with the numbers of another, which is probed.
TEST(IbCmActions, AStaleRepHasThreeActions) {
  IbCm cm({.seed = 1});
  const Nanos now{0};
  ASSERT_TRUE(cm.listen(kService, 10, 3));
  ReqMad req{.local_id = 9, .service_id = kService, .qpn = 0x22};
  req.local_gid = kPeer;
  req.remote_gid = kOurs;
  req.mtu = 3;
  CmActions arrived = cm.on_mad(kPeer, kOurs, make_mad(1, req), now);
  CmActions admitted = cm.admit(std::get<CmArrival>(*arrived.begin()));
  const uint32_t first = std::get<CmMessage>(*admitted.begin()).id;
  ASSERT_TRUE(cm.accept(first, {.qpn = 0x11}, now));
  cm.on_mad(kPeer, kOurs, make_mad(1, RtuMad{.local_id = 9, .remote_id = first}), now);

  const CmRequest request{.service_id = kService, .path = {.sgid = kOurs, .dgid = kPeer}, .qpn = 0x12};
  const uint32_t second = cm.connect(request, now)->id;
  CmActions stale = cm.on_mad(kPeer, kOurs, make_mad(1, RepMad{.local_id = 10, .remote_id = second, .qpn = 0x22}), now);
  EXPECT_EQ(names_of(stale), (Names{"REJ", "rejected", "REP"}));
}

/// A request has no connection until its caller has found a place for it.
TEST(IbCmActions, AnArrivalIsAdmittedToABacklog) {
  IbCm cm({.seed = 1});
  ASSERT_TRUE(cm.listen(kService, 10, 3));
  const auto arrive = [&](uint32_t number) {
    ReqMad req{.local_id = number, .service_id = kService, .qpn = 0x10 + number};
    req.local_gid = kPeer;
    req.remote_gid = kOurs;
    req.mtu = 3;
    CmActions actions = cm.on_mad(kPeer, kOurs, make_mad(number, req), Nanos(0));
    return std::get<CmArrival>(*actions.begin());
  };
  const auto narrow = std::make_shared<Backlog>(1);
  const CmArrival first = arrive(1);
  EXPECT_EQ(first.listener, 3u);
  EXPECT_EQ(cm.size(), 0u);
  CmActions admitted = cm.admit(first, narrow);
  EXPECT_EQ(names_of(admitted), Names{"request"});
  CmActions lost = cm.admit(arrive(2), narrow);
  EXPECT_EQ(names_of(lost), Names{});
  EXPECT_EQ(cm.counters().backlog_full.get(), 1u);
  CmActions elsewhere = cm.admit(arrive(2));
  EXPECT_EQ(names_of(elsewhere), Names{"request"});
  EXPECT_EQ(cm.size(), 2u);
}

}  // namespace
}  // namespace uroce::cm

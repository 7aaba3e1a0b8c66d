// Connections between two connection managers, without errors.
#include "cm/ib/ib_cm.h"

#include <gtest/gtest.h>

#include "tests/unit/cm/cm_pair.h"

namespace uroce::cm {
namespace {

TEST(IbCm, ConnectsAndDisconnects) {
  CmPair pair;
  ASSERT_TRUE(pair.passive.cm.listen(kService, 10, 77));
  CmRequest request = pair.request();
  request.private_data = bytes_of("hello");
  request.responder_resources = 3;
  request.initiator_depth = 5;
  const auto a = pair.active.connect(request, pair.now);
  ASSERT_TRUE(a);
  pair.run();

  const CmMessage requested = pair.passive.take_event();
  ASSERT_EQ(requested.kind, CmEventKind::request);
  EXPECT_EQ(requested.listener, 77u);
  EXPECT_EQ(requested.request.service_id, kService);
  EXPECT_EQ(requested.request.path.sgid, pair.passive.gid);
  EXPECT_EQ(requested.request.path.dgid, pair.active.gid);
  EXPECT_EQ(requested.request.qpn, request.qpn);
  EXPECT_EQ(requested.request.psn, request.psn);
  EXPECT_EQ(requested.request.responder_resources, 3);
  EXPECT_EQ(requested.request.initiator_depth, 5);
  EXPECT_EQ(requested.request.private_data.size(), kReqPrivate);
  EXPECT_EQ(text_of(requested.request.private_data), "hello");
  const CmConnection* c = pair.passive.cm.find(requested.id);
  ASSERT_NE(c, nullptr);
  EXPECT_FALSE(c->active);
  EXPECT_EQ(c->remote_qpn, request.qpn);
  EXPECT_EQ(c->remote_psn, request.psn);

  CmReply reply = pair.reply();
  reply.private_data = bytes_of("welcome");
  ASSERT_TRUE(pair.passive.accept(requested.id, reply, pair.now));
  pair.run();
  const CmMessage replied = pair.active.take_event();
  ASSERT_EQ(replied.kind, CmEventKind::reply);
  EXPECT_EQ(replied.id, *a);
  EXPECT_EQ(replied.reply.qpn, reply.qpn);
  EXPECT_EQ(replied.reply.psn, reply.psn);
  EXPECT_EQ(text_of(replied.reply.private_data), "welcome");
  EXPECT_EQ(pair.active.cm.find(*a)->remote_qpn, reply.qpn);

  ASSERT_TRUE(pair.active.ready(*a, bytes_of("go"), pair.now));
  pair.run();
  const CmMessage up = pair.passive.take_event();
  EXPECT_EQ(up.kind, CmEventKind::established);
  EXPECT_EQ(text_of(up.private_data), "go");
  EXPECT_EQ(pair.active.cm.next_deadline(), kNever);
  EXPECT_EQ(pair.passive.cm.next_deadline(), kNever);

  ASSERT_TRUE(pair.active.disconnect(*a, bytes_of("bye"), pair.now));
  pair.run();
  EXPECT_EQ(pair.active.take_event().kind, CmEventKind::disconnected);
  const CmMessage down = pair.passive.take_event();
  EXPECT_EQ(down.kind, CmEventKind::disconnected);
  EXPECT_EQ(text_of(down.private_data), "bye");
  EXPECT_TRUE(pair.passive.disconnect(requested.id, {}, pair.now)) << "disconnecting again does nothing";
  EXPECT_TRUE(pair.passive.sent.empty());

  pair.pass(std::chrono::seconds(10));
  EXPECT_EQ(pair.active.take_event().kind, CmEventKind::timewait_exit);
  EXPECT_EQ(pair.passive.take_event().kind, CmEventKind::timewait_exit);
  pair.active.destroy(*a, pair.now);
  pair.passive.destroy(requested.id, pair.now);
  pair.expect_nothing_left();
}

/// Annex A14, as Linux sends it: the target's queue pair is in the EE context of the REP.
TEST(IbCm, ConnectsAnExtendedReliableConnection) {
  CmPair pair;
  ASSERT_TRUE(pair.passive.cm.listen(kService, 10, 1));
  CmRequest request = pair.request();
  request.type = QpType::xrc_initiator;
  request.responder_resources = 3;
  request.initiator_depth = 5;
  const auto a = pair.active.connect(request, pair.now);
  ASSERT_TRUE(a);
  const ReqMad req = ReqMad::load(pair.active.sent.front().mad.data() + kMadHeaderBytes);
  EXPECT_EQ(req.transport, CmTransport::extended);
  EXPECT_EQ(req.extended_transport, 1);
  EXPECT_EQ(req.qpn, request.qpn);
  EXPECT_EQ(req.initiator_depth, 5);
  EXPECT_EQ(req.responder_resources + req.retry_count + req.rnr_retry_count + req.srq, 0);
  pair.run();
  const CmMessage requested = pair.passive.take_event();
  EXPECT_EQ(requested.request.type, QpType::xrc_target);

  ASSERT_TRUE(pair.passive.accept(requested.id, pair.reply(), pair.now));
  const RepMad rep = RepMad::load(pair.passive.sent.front().mad.data() + kMadHeaderBytes);
  EXPECT_EQ(rep.ee_context, pair.reply().qpn);
  EXPECT_EQ(rep.qpn, 0u);
  EXPECT_TRUE(rep.srq);
  EXPECT_FALSE(rep.flow_control);
  pair.run();
  const CmMessage replied = pair.active.take_event();
  EXPECT_EQ(replied.kind, CmEventKind::reply);
  EXPECT_EQ(replied.reply.qpn, pair.reply().qpn);
  EXPECT_EQ(pair.active.cm.find(*a)->remote_qpn, pair.reply().qpn);
  ASSERT_TRUE(pair.active.ready(*a, {}, pair.now));
  pair.run();
  EXPECT_EQ(pair.passive.take_event().kind, CmEventKind::established);

  ASSERT_TRUE(pair.active.disconnect(*a, {}, pair.now));
  pair.run();
  EXPECT_EQ(pair.passive.take_event().kind, CmEventKind::disconnected);
  EXPECT_EQ(pair.active.take_event().kind, CmEventKind::disconnected);
}

/// Other extended transports than XRC are not known.
TEST(IbCm, AnUnknownExtendedTransportIsRejected) {
  CmPair pair;
  ASSERT_TRUE(pair.passive.cm.listen(kService, 10, 1));
  CmRequest request = pair.request();
  request.type = QpType::xrc_initiator;
  ASSERT_TRUE(pair.active.connect(request, pair.now));
  test::SentMad sent = pair.active.sent.front();
  store8(sent.mad.data() + kMadHeaderBytes + 51, load8(sent.mad.data() + kMadHeaderBytes + 51) + 1);
  pair.passive.on_mad(sent.path.sgid, sent.path.dgid, sent.mad, pair.now);
  const RejMad rej = RejMad::load(pair.passive.sent.front().mad.data() + kMadHeaderBytes);
  EXPECT_EQ(rej.reason, static_cast<uint16_t>(RejReason::invalid_transport_type));
}

TEST(IbCm, PassiveSideDisconnects) {
  CmPair pair;
  const auto [a, b] = pair.connected();
  ASSERT_TRUE(pair.passive.disconnect(b, {}, pair.now));
  pair.run();
  EXPECT_EQ(pair.active.take_event().kind, CmEventKind::disconnected);
  EXPECT_EQ(pair.passive.take_event().kind, CmEventKind::disconnected);
  pair.active.destroy(a, pair.now);
  pair.passive.destroy(b, pair.now);
  EXPECT_EQ(pair.active.cm.size(), 1u) << "time-wait";
  pair.pass(std::chrono::seconds(10));
  pair.expect_nothing_left();
}

TEST(IbCm, DestroyingDisconnects) {
  CmPair pair;
  const auto [a, b] = pair.connected();
  pair.active.destroy(a, pair.now);
  pair.run();
  EXPECT_EQ(pair.passive.take_event().kind, CmEventKind::disconnected);
  pair.passive.destroy(b, pair.now);
  pair.pass(std::chrono::seconds(10));
  pair.expect_nothing_left();
}

TEST(IbCm, BothDisconnectAtOnce) {
  CmPair pair;
  const auto [a, b] = pair.connected();
  ASSERT_TRUE(pair.active.disconnect(a, {}, pair.now));
  ASSERT_TRUE(pair.passive.disconnect(b, {}, pair.now));
  pair.run();
  EXPECT_EQ(pair.active.take_event().kind, CmEventKind::disconnected);
  EXPECT_EQ(pair.passive.take_event().kind, CmEventKind::disconnected);
  EXPECT_EQ(pair.active.cm.counters().dreq_sent.get(), 1u);
  pair.active.destroy(a, pair.now);
  pair.passive.destroy(b, pair.now);
  pair.pass(std::chrono::seconds(10));
  pair.expect_nothing_left();
}

TEST(IbCm, ConnectsToItself) {
  CmHost host(Gid::from_ipv4(0x0a000001));
  const auto run = [&] {
    while (!host.sent.empty()) {
      const test::SentMad next = host.sent.front();
      host.sent.pop_front();
      host.on_mad(next.path.sgid, next.path.dgid, next.mad, Nanos(5));
    }
  };
  ASSERT_TRUE(host.cm.listen(kService, 10, 1));
  const CmRequest request{.service_id = kService, .path = {.sgid = host.gid, .dgid = host.gid}, .qpn = 0x11};
  const auto a = host.connect(request, Nanos(5));
  ASSERT_TRUE(a);
  run();
  const uint32_t b = host.take_event().id;
  ASSERT_TRUE(host.accept(b, {.qpn = 0x12}, Nanos(5)));
  run();
  EXPECT_EQ(host.take_event().kind, CmEventKind::reply);
  ASSERT_TRUE(host.ready(*a, {}, Nanos(5)));
  run();
  EXPECT_EQ(host.take_event().kind, CmEventKind::established);
  host.destroy(*a, Nanos(5));
  run();
  EXPECT_EQ(host.take_event().kind, CmEventKind::disconnected);
  host.destroy(b, Nanos(5));
  host.poll(std::chrono::seconds(10));
  EXPECT_EQ(host.cm.size(), 0u);
}

TEST(IbCm, RejectsWithPrivateData) {
  CmPair pair;
  const auto [a, b] = pair.requested();
  ASSERT_TRUE(pair.passive.reject(b, RejReason::consumer_reject, bytes_of("info"), bytes_of("no"), pair.now));
  pair.run();
  const CmMessage rejected = pair.active.take_event();
  EXPECT_EQ(rejected.kind, CmEventKind::rejected);
  EXPECT_EQ(rejected.reason, 28);
  EXPECT_EQ(text_of(rejected.info), "info");
  EXPECT_EQ(text_of(rejected.private_data), "no");
  pair.active.destroy(a, pair.now);
  pair.passive.destroy(b, pair.now);
  pair.pass(std::chrono::seconds(30));
  pair.expect_nothing_left();
}

TEST(IbCm, TheActiveSideRejectsAReply) {
  CmPair pair;
  const auto [a, b] = pair.requested();
  ASSERT_TRUE(pair.passive.accept(b, pair.reply(), pair.now));
  pair.run();
  EXPECT_EQ(pair.active.take_event().kind, CmEventKind::reply);
  ASSERT_TRUE(pair.active.reject(a, RejReason::consumer_reject, {}, {}, pair.now));
  pair.run();
  EXPECT_EQ(pair.passive.take_event().kind, CmEventKind::rejected);
  pair.active.destroy(a, pair.now);
  pair.passive.destroy(b, pair.now);
  pair.pass(std::chrono::seconds(30));
  pair.expect_nothing_left();
}

TEST(IbCm, NobodyListens) {
  CmPair pair;
  const auto a = pair.active.connect(pair.request(), pair.now);
  ASSERT_TRUE(a);
  pair.run();
  const CmMessage rejected = pair.active.take_event();
  EXPECT_EQ(rejected.kind, CmEventKind::rejected);
  EXPECT_EQ(rejected.reason, static_cast<uint16_t>(RejReason::invalid_service_id));
  EXPECT_EQ(pair.passive.cm.counters().no_listener.get(), 1u);
  pair.active.destroy(*a, pair.now);
  pair.expect_nothing_left();
}

TEST(IbCm, AListenerThatARestartHasHeldUpIsNotTooLate) {
  CmPair pair;
  pair.passive.cm.await_listeners(pair.now + std::chrono::seconds(1));
  const auto a = pair.active.connect(pair.request(), pair.now);
  ASSERT_TRUE(a);
  pair.run();
  EXPECT_EQ(pair.passive.cm.counters().no_listener.get(), 1u);
  EXPECT_EQ(pair.passive.cm.counters().rej_sent.get(), 0u);
  ASSERT_TRUE(pair.passive.cm.listen(kService, 1, 0));
  pair.pass(std::chrono::seconds(10));
  EXPECT_EQ(pair.passive.take_event().kind, CmEventKind::request);
}

TEST(IbCm, EachServiceHasOneListener) {
  CmPair pair;
  ASSERT_TRUE(pair.passive.cm.listen(kService + 1, 10, 1));
  ASSERT_TRUE(pair.passive.cm.listen(kService, 10, 2));
  const auto again = pair.passive.cm.listen(kService, 10, 3);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, EADDRINUSE);
  ASSERT_TRUE(pair.active.connect(pair.request(), pair.now));
  CmRequest other = pair.request();
  ++other.service_id;
  ++other.qpn;
  ASSERT_TRUE(pair.active.connect(other, pair.now));
  pair.run();
  EXPECT_EQ(pair.passive.take_event().listener, 2u);
  EXPECT_EQ(pair.passive.take_event().listener, 1u);
  pair.passive.cm.stop_listening(kService);
  CmRequest third = pair.request();
  third.qpn += 2;
  ASSERT_TRUE(pair.active.connect(third, pair.now));
  pair.run();
  EXPECT_EQ(pair.passive.take_event().id, 0u);
  EXPECT_EQ(pair.active.take_event().reason, static_cast<uint16_t>(RejReason::invalid_service_id));
}

TEST(IbCm, FindsADatagramService) {
  CmPair pair;
  ASSERT_TRUE(pair.passive.cm.listen(kService, 10, 5));
  CmRequest request = pair.request();
  request.type = QpType::ud;
  request.private_data = bytes_of("who");
  const auto a = pair.active.connect(request, pair.now);
  ASSERT_TRUE(a);
  pair.run();
  const CmMessage requested = pair.passive.take_event();
  ASSERT_EQ(requested.kind, CmEventKind::request);
  EXPECT_EQ(requested.request.type, QpType::ud);
  EXPECT_EQ(requested.request.path.dgid, pair.active.gid);
  EXPECT_EQ(text_of(requested.request.private_data), "who");
  ASSERT_TRUE(
      pair.passive.accept(requested.id, {.qpn = 0x77, .qkey = 0x1234567, .private_data = bytes_of("me")}, pair.now));
  pair.run();
  const CmMessage found = pair.active.take_event();
  ASSERT_EQ(found.kind, CmEventKind::established);
  EXPECT_EQ(found.reply.qpn, 0x77u);
  EXPECT_EQ(found.reply.qkey, 0x1234567u);
  EXPECT_EQ(text_of(found.private_data), "me");
  EXPECT_EQ(pair.active.cm.find(*a)->remote_qpn, 0x77u);
  pair.active.destroy(*a, pair.now);
  pair.passive.destroy(requested.id, pair.now);
  pair.pass(std::chrono::seconds(60));
  pair.expect_nothing_left();
}

TEST(IbCm, ADatagramServiceIsRefused) {
  CmPair pair;
  CmRequest request = pair.request();
  request.type = QpType::ud;
  const auto nobody = pair.active.connect(request, pair.now);
  pair.run();
  CmMessage rejected = pair.active.take_event();
  EXPECT_EQ(rejected.kind, CmEventKind::rejected);
  EXPECT_EQ(rejected.reason, 1) << "no such service";
  ASSERT_TRUE(pair.passive.cm.listen(kService, 10, 5));
  const auto refused = pair.active.connect(request, pair.now);
  pair.run();
  const uint32_t requested = pair.passive.take_event().id;
  ASSERT_TRUE(pair.passive.reject(requested, RejReason::consumer_reject, {}, bytes_of("busy"), pair.now));
  pair.run();
  rejected = pair.active.take_event();
  EXPECT_EQ(rejected.kind, CmEventKind::rejected);
  EXPECT_EQ(rejected.reason, 2);
  EXPECT_EQ(text_of(rejected.private_data), "busy");
  pair.active.destroy(*nobody, pair.now);
  pair.active.destroy(*refused, pair.now);
  pair.passive.destroy(requested, pair.now);
  pair.pass(std::chrono::seconds(60));
  pair.expect_nothing_left();
}

}  // namespace
}  // namespace uroce::cm

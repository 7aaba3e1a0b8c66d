// A planned restart: clients go on with all that they have.
#include <set>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "succession_fixture.h"

namespace uroce::service {
namespace {

TEST_F(SuccessionTest, ClientsGoOnWithWhatTheyHave) {
  auto mine = client_->make_qp();
  auto theirs = peer_->make_qp();
  connect(*client_, mine, *peer_, theirs);
  expect_all_operations(mine, theirs, client_->mr);
  for (int restart = 0; restart < 10; ++restart) {
    const auto inherited = hand_over();
    EXPECT_EQ(inherited.queue_pairs, 1u) << log();
    EXPECT_EQ(inherited.refused, 0u);
    EXPECT_FALSE(client_->context.lost());
    expect_all_operations(mine, theirs, client_->mr);
    // New objects have numbers that no old one has.
    auto more = client_->make_qp();
    EXPECT_NE(more.qpn(), mine.qpn());
    std::vector<std::byte> memory(4096);
    auto mr = must(client_->pd.register_memory(memory.data(), memory.size(), Side::kAll));
    EXPECT_NE(mr.rkey(), client_->mr.rkey());
  }
}

TEST_F(SuccessionTest, WhatIsPostedMeanwhileIsDone) {
  auto mine = client_->make_qp();
  auto theirs = peer_->make_qp();
  connect(*client_, mine, *peer_, theirs);
  const Sge own = client_->mr.sge(0, 64);
  const Sge there = peer_->mr.sge(0, 64);
  EXPECT_EQ(0, mine.post_recv({.wr_id = 5, .sges = {&own, 1}}));
  hand_over([&] {
    for (uint64_t i = 0; i < 40; ++i) {
      EXPECT_EQ(0, mine.post_send({.wr_id = 100 + i,
                                   .opcode = WrOpcode::rdma_write,
                                   .flags = SendFlag::signaled,
                                   .sges = {&own, 1},
                                   .remote_addr = reinterpret_cast<uint64_t>(peer_->memory.data()) + 64 * i,
                                   .rkey = peer_->mr.rkey()}));
    }
    EXPECT_EQ(
        0, theirs.post_send({.wr_id = 7, .opcode = WrOpcode::send, .flags = SendFlag::signaled, .sges = {&there, 1}}));
    // Longer than the peer waits for its acknowledgement.
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  });
  std::set<uint64_t> done;
  while (done.size() < 41) {
    const auto completion = next(world_, client_->cq);
    ASSERT_EQ(completion.status, WcStatus::success);
    EXPECT_TRUE(done.insert(completion.wr_id).second) << completion.wr_id << " twice";
  }
  EXPECT_TRUE(done.contains(5));
  const auto sent = next(world_, peer_->cq);
  EXPECT_EQ(sent.wr_id, 7u);
  EXPECT_EQ(sent.status, WcStatus::success);
}

TEST_F(SuccessionTest, TheFirstGoesOnWhereNobodyTakesOver) {
  auto mine = client_->make_qp();
  auto theirs = peer_->make_qp();
  connect(*client_, mine, *peer_, theirs);
  {
    auto ends = connection();
    message::SuccessionLink to(ends.predecessor), from(ends.successor);
    auto successor = make_successor();
    must(running().hold());
    (void)must(running().bequeath(to));
    (void)must(successor->inherit(from));
  }
  EXPECT_FALSE(client_->context.lost());
  running().go_on();
  expect_all_operations(mine, theirs, client_->mr);
  EXPECT_EQ(running().clients().size(), 1u);
}

TEST_F(SuccessionTest, EveryKindOfObject) {
  auto srq = must(client_->context.create_srq(client_->pd, 64, 1));
  auto mine = client_->make_qp({.type = QpType::rc}, &srq);
  auto theirs = peer_->make_qp();
  connect(*client_, mine, *peer_, theirs);
  auto window = must(client_->pd.create_memory_window(WindowType::type2));
  auto null = must(client_->pd.create_null_region());
  const Sge own = client_->mr.sge(0, 64);
  for (uint64_t i = 0; i < 8; ++i) EXPECT_EQ(0, srq.post_recv({.wr_id = i, .sges = {&own, 1}}));
  hand_over();
  const Sge there = peer_->mr.sge(0, 64);
  for (uint64_t i = 0; i < 8; ++i) {
    EXPECT_EQ(
        0, theirs.post_send({.wr_id = i, .opcode = WrOpcode::send, .flags = SendFlag::signaled, .sges = {&there, 1}}));
    EXPECT_EQ(next(world_, peer_->cq).status, WcStatus::success);
    EXPECT_EQ(next(world_, client_->cq).wr_id, i);
  }
  EXPECT_EQ(client_->memory[9], static_cast<std::byte>(63));
  must(client_->cq.resize(4096));
  expect_all_operations(mine, theirs, client_->mr);
}

TEST_F(SuccessionTest, QueuePairsOfAnySize) {
  std::vector<QueuePair> all;
  for (const uint32_t size : {1u, 3u, 8u, 13u, 30u}) {
    for (const uint32_t inline_bytes : {0u, 60u, 200u, 500u}) {
      all.push_back(client_->make_qp({.cap = {.max_send_wr = 7 * size,
                                              .max_recv_wr = 11 * size,
                                              .max_send_sge = size,
                                              .max_recv_sge = 31 - size,
                                              .max_inline_data = inline_bytes}}));
    }
  }
  for (int restart = 0; restart < 2; ++restart) {
    const auto over = hand_over();
    EXPECT_EQ(over.queue_pairs, all.size());
    EXPECT_EQ(over.refused, 0u) << log();
  }
}

TEST_F(SuccessionTest, EventsOfTheLastMomentArrive) {
  hand_over([&] { world_.device(0)->report_link(false); });
  const auto event = client_->context.next_async_event(std::chrono::seconds(20));
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->type, AsyncEventType::port_error);
}

TEST_F(SuccessionTest, AForgedEstateEndsNobody) {
  auto mine = client_->make_qp();
  must(running().hold());
  std::vector<std::byte> rows;
  std::vector<message::Fd> fds;
  std::vector<std::byte> header;
  {
    auto ends = connection();
    message::SuccessionLink to(ends.predecessor), from(ends.successor);
    (void)must(running().bequeath(to));
    auto first = must(from.receive({message::Step::estate}, std::chrono::seconds(5)));
    header = first.body;
    struct stat file{};
    ASSERT_EQ(fstat(first.fds[0].get(), &file), 0);
    rows.resize(static_cast<std::size_t>(file.st_size));
    ASSERT_EQ(pread(first.fds[0].get(), rows.data(), rows.size(), 0), file.st_size);
    fds = std::move(must(from.receive({message::Step::estate}, std::chrono::seconds(5))).fds);
  }
  // Some bytes wrong: the successor refuses the whole, or the client, or takes what is as good.
  auto successor = make_successor();
  // The rows of devices come first, and most of them are long lists of counts.
  for (std::size_t at = 0; at < rows.size(); at += rows.size() - at > 4096 ? 4099 : 7) {
    auto ends = connection();
    message::SuccessionLink to(ends.predecessor), from(ends.successor);
    const message::Fd forged(memfd_create("forged", MFD_CLOEXEC));
    rows[at] ^= std::byte{0x41};
    ASSERT_EQ(pwrite(forged.get(), rows.data(), rows.size(), 0), static_cast<ssize_t>(rows.size()));
    rows[at] ^= std::byte{0x41};
    const int beside = forged.get();
    must(to.send(message::Step::estate, header, {&beside, 1}));
    std::vector<int> numbers;
    for (const auto& fd : fds) numbers.push_back(fd.get());
    must(to.send(message::Step::estate, {}, numbers));
    (void)successor->inherit(from);
    if (at % 10 == 0) successor = make_successor();
  }
  successor.reset();
  EXPECT_FALSE(client_->context.lost());
  running().go_on();
  auto more = client_->make_qp();
}

}  // namespace
}  // namespace uroce::service

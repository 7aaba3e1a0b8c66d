#include "transport/qp/replay_store.h"

#include <gtest/gtest.h>

#include <vector>

#include "transport/qp/response_queue.h"

namespace uroce::transport {
namespace {

// Executes a READ or atomic whose answer has left.
Resource& add_done(ReplayStore& store, uint32_t psn) {
  Resource* resource = store.add();
  EXPECT_NE(resource, nullptr);
  resource->first_psn = Psn(psn);
  resource->packets = 1;
  resource->busy = false;
  return *resource;
}

std::vector<uint32_t> psns(const ReplayStore& store) {
  std::vector<uint32_t> out;
  for (const Resource& resource : store.resources()) {
    if (resource.packets != 0) out.push_back(resource.first_psn.value());
  }
  return out;
}

TEST(ReplayStore, WithoutResourcesThereIsNoRoom) {
  ReplayStore store;
  ResponseQueue queue;
  EXPECT_EQ(store.add(), nullptr);
  queue.resize(store, 0);
  EXPECT_EQ(store.add(), nullptr);
  EXPECT_FALSE(queue.has_jobs());
}

TEST(ReplayStore, RemembersAsManyAsWereAgreedTheOldestGoesFirst) {
  ReplayStore store;
  ResponseQueue queue;
  queue.resize(store, 2);
  add_done(store, 10);
  add_done(store, 11);
  EXPECT_EQ(psns(store), (std::vector<uint32_t>{10, 11}));
  add_done(store, 12);
  EXPECT_EQ(psns(store), (std::vector<uint32_t>{12, 11}));
}

TEST(ReplayStore, AnAnswerNotYetSentKeepsItsPlace) {
  ReplayStore store;
  ResponseQueue queue;
  queue.resize(store, 2);
  Resource* first = store.add();
  ASSERT_NE(first, nullptr);
  EXPECT_TRUE(first->busy);
  ASSERT_NE(store.add(), nullptr);
  EXPECT_EQ(store.add(), nullptr) << "the peer has more outstanding than was agreed";
  first->busy = false;
  EXPECT_EQ(store.add(), first);
}

TEST(ReplayStore, JobsAreServedInOrder) {
  ReplayStore store;
  ResponseQueue queue;
  queue.resize(store, 4);
  queue.push(store, add_done(store, 10), 0, 5, true);
  queue.push(store, add_done(store, 20), 2, 3, false);
  ASSERT_TRUE(queue.has_jobs());
  EXPECT_EQ(queue.next_job(store)->resource, 0u);
  EXPECT_EQ(queue.next_job(store)->end, 5u);
  EXPECT_TRUE(queue.next_job(store)->original);
  EXPECT_TRUE(queue.next_job(store)->at_start);
  queue.pop(store);
  EXPECT_EQ(queue.next_job(store)->resource, 1u);
  EXPECT_EQ(queue.next_job(store)->next, 2u);
  EXPECT_FALSE(queue.next_job(store)->original);
  queue.pop(store);
  EXPECT_FALSE(queue.has_jobs());
}

TEST(ReplayStore, DuplicatesLeaveRoomForEveryOriginal) {
  constexpr uint32_t kResources = 3;
  ReplayStore store;
  ResponseQueue queue;
  queue.resize(store, kResources);
  const Resource& resource = add_done(store, 10);
  uint32_t duplicates = 0;
  for (; store.has_room_for_duplicate() && duplicates < 100; ++duplicates) queue.push(store, resource, 0, 1, false);
  EXPECT_GE(duplicates, kResources) << "each may be asked for once more";
  EXPECT_LT(duplicates, 100u);
  for (uint32_t i = 0; i < kResources; ++i) queue.push(store, *store.add(), 0, 1, true);
  uint32_t originals = 0;
  for (; queue.has_jobs(); queue.pop(store)) originals += queue.next_job(store)->original ? 1 : 0;
  EXPECT_EQ(originals, kResources) << "none was overwritten";
}

TEST(ReplayStore, RoomForEveryOriginalIsKeptUnlessJobsAreForced) {
  constexpr uint32_t kResources = 3;
  ReplayStore store;
  ResponseQueue queue;
  EXPECT_TRUE(store.has_room_for_originals());
  queue.resize(store, kResources);
  const Resource& resource = add_done(store, 10);
  while (store.has_room_for_duplicate()) queue.push(store, resource, 0, 1, false);
  EXPECT_TRUE(store.has_room_for_originals());
  for (uint32_t i = 0; i < kResources; ++i) queue.push(store, *store.add(), 0, 1, true);
  EXPECT_TRUE(store.has_room_for_originals());
  queue.pop(store);
  store.resources()[0].busy = false;
  EXPECT_TRUE(store.has_room_for_originals());
  queue.push(store, resource, 0, 1, false);
  EXPECT_FALSE(store.has_room_for_originals());
}

TEST(ReplayStore, AReplayOfWhatIsGoneIsGivenUp) {
  ReplayStore store;
  ResponseQueue queue;
  queue.resize(store, 1);
  queue.push(store, add_done(store, 10), 0, 1, false);
  ASSERT_NE(store.add(), nullptr);
  ASSERT_TRUE(queue.has_jobs());
  EXPECT_EQ(queue.next_job(store), nullptr);
}

TEST(ReplayStore, AnotherSizeForgetsWhatWaited) {
  ReplayStore store;
  ResponseQueue queue;
  queue.resize(store, 2);
  queue.push(store, add_done(store, 10), 0, 1, true);
  queue.resize(store, 0);
  EXPECT_FALSE(queue.has_jobs());
  queue.resize(store, 2);
  EXPECT_FALSE(queue.has_jobs());
  queue.push(store, add_done(store, 20), 0, 7, true);
  EXPECT_EQ(queue.next_job(store)->end, 7u);
}

TEST(ReplayStore, FindsAJobOldestFirst) {
  ReplayStore store;
  ResponseQueue queue;
  queue.resize(store, 4);
  for (const uint32_t psn : {10, 20, 30}) queue.push(store, add_done(store, psn), 0, psn, true);
  std::vector<uint32_t> seen;
  EXPECT_TRUE(store.find_job([&](ResponseJob& job) {
    seen.push_back(job.end);
    return job.end == 20;
  }));
  EXPECT_EQ(seen, (std::vector<uint32_t>{10, 20}));
  EXPECT_FALSE(store.find_job([](ResponseJob&) { return false; }));
  queue.drop_jobs(store);
  EXPECT_FALSE(store.find_job([](ResponseJob&) { return true; }));
  EXPECT_EQ(psns(store).size(), 3u) << "what was executed is still known";
  queue.clear(store);
  EXPECT_TRUE(store.resources().empty());
}

}  // namespace
}  // namespace uroce::transport

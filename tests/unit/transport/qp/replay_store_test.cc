#include "transport/qp/replay_store.h"

#include <gtest/gtest.h>

#include <vector>

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
  EXPECT_EQ(store.add(), nullptr);
  store.resize(0);
  EXPECT_EQ(store.add(), nullptr);
  EXPECT_FALSE(store.has_jobs());
}

TEST(ReplayStore, RemembersAsManyAsWereAgreedTheOldestGoesFirst) {
  ReplayStore store;
  store.resize(2);
  add_done(store, 10);
  add_done(store, 11);
  EXPECT_EQ(psns(store), (std::vector<uint32_t>{10, 11}));
  add_done(store, 12);
  EXPECT_EQ(psns(store), (std::vector<uint32_t>{12, 11}));
}

TEST(ReplayStore, AnAnswerNotYetSentKeepsItsPlace) {
  ReplayStore store;
  store.resize(2);
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
  store.resize(4);
  store.push_job(add_done(store, 10), 0, 5, true);
  store.push_job(add_done(store, 20), 2, 3, false);
  ASSERT_TRUE(store.has_jobs());
  EXPECT_EQ(store.front_job().resource, 0u);
  EXPECT_EQ(store.front_job().end, 5u);
  EXPECT_TRUE(store.front_job().original);
  EXPECT_TRUE(store.front_job().at_start);
  store.pop_job();
  EXPECT_EQ(store.front_job().resource, 1u);
  EXPECT_EQ(store.front_job().next, 2u);
  EXPECT_FALSE(store.front_job().original);
  store.pop_job();
  EXPECT_FALSE(store.has_jobs());
}

TEST(ReplayStore, DuplicatesLeaveRoomForEveryOriginal) {
  constexpr uint32_t kResources = 3;
  ReplayStore store;
  store.resize(kResources);
  const Resource& resource = add_done(store, 10);
  uint32_t duplicates = 0;
  for (; store.has_room_for_duplicate() && duplicates < 100; ++duplicates) store.push_job(resource, 0, 1, false);
  EXPECT_GE(duplicates, kResources) << "each may be asked for once more";
  EXPECT_LT(duplicates, 100u);
  for (uint32_t i = 0; i < kResources; ++i) store.push_job(*store.add(), 0, 1, true);
  uint32_t originals = 0;
  for (; store.has_jobs(); store.pop_job()) originals += store.front_job().original ? 1 : 0;
  EXPECT_EQ(originals, kResources) << "none was overwritten";
}

TEST(ReplayStore, AReplayOfWhatIsGoneIsGivenUp) {
  ReplayStore store;
  store.resize(1);
  store.push_job(add_done(store, 10), 0, 1, false);
  ASSERT_NE(store.add(), nullptr);
  ASSERT_TRUE(store.has_jobs());
  EXPECT_EQ(store.front_job().resource, ResponseJob::kVoid);
}

TEST(ReplayStore, AnotherSizeForgetsWhatWaited) {
  ReplayStore store;
  store.resize(2);
  store.push_job(add_done(store, 10), 0, 1, true);
  store.resize(0);
  EXPECT_FALSE(store.has_jobs());
  store.resize(2);
  EXPECT_FALSE(store.has_jobs());
  store.push_job(add_done(store, 20), 0, 7, true);
  EXPECT_EQ(store.front_job().end, 7u);
}

TEST(ReplayStore, FindsAJobOldestFirst) {
  ReplayStore store;
  store.resize(4);
  for (const uint32_t psn : {10, 20, 30}) store.push_job(add_done(store, psn), 0, psn, true);
  std::vector<uint32_t> seen;
  EXPECT_TRUE(store.find_job([&](ResponseJob& job) {
    seen.push_back(job.end);
    return job.end == 20;
  }));
  EXPECT_EQ(seen, (std::vector<uint32_t>{10, 20}));
  EXPECT_FALSE(store.find_job([](ResponseJob&) { return false; }));
  store.drop_jobs();
  EXPECT_FALSE(store.find_job([](ResponseJob&) { return true; }));
  EXPECT_EQ(psns(store).size(), 3u) << "what was executed is still known";
  store.clear();
  EXPECT_TRUE(store.resources().empty());
}

}  // namespace
}  // namespace uroce::transport

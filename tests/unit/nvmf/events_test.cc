// A host hears of a disk that gets another size, and sets features that are only kept.
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "target_over_rdma.h"

namespace uroce::nvmf {
namespace {

constexpr uint32_t kDiskBlock = 4096;

class EventsTest : public TargetOverRdma {
 protected:
  EventsTest() {
    std::filesystem::create_directories(folder_);
    std::ofstream(path_).close();
    resize(16);
    serve({{.memory_bytes = 4 << 20}, {.path = path_}});
  }
  void resize(uint64_t blocks, uint64_t more = 0) { std::filesystem::resize_file(path_, blocks * kDiskBlock + more); }
  uint64_t size(InitiatorQueue& admin) {
    const auto identify = admin_command(nvme::kIdentify, 2, nvme::kCnsNamespace);
    EXPECT_EQ(status_of(admin.call(admin.keyed(identify, 0, 4096))), Status::success);
    nvme::IdentifyNamespace page;
    std::memcpy(&page, admin.data().data(), sizeof page);
    return page.nsze;
  }
  /// The first two entries of the log.
  std::array<uint32_t, 2> changed(InitiatorQueue& admin, uint32_t flags = 0) {
    auto command = log_command(nvme::kChangedNamespaces, 4096);
    command.cdw10 |= flags;
    EXPECT_EQ(status_of(admin.call(admin.keyed(command, 0, 4096))), Status::success);
    std::array<uint32_t, 2> list;
    std::memcpy(&list, admin.data().data(), sizeof list);
    return list;
  }
  void want_notices(InitiatorQueue& admin) {
    const auto set = admin_command(nvme::kSetFeatures, 0, nvme::kAsyncEventConfig, nvme::kNamespaceNotices);
    EXPECT_EQ(status_of(admin.call(set)), Status::success);
  }
  /// The next response is that of an event request.
  void expect_notice(InitiatorQueue& admin, uint16_t request) {
    const auto event = admin.next();
    ASSERT_TRUE(event);
    EXPECT_EQ(event->command_id, request);
    EXPECT_EQ(status_of(*event), Status::success);
    EXPECT_EQ(event->result, nvme::kNamespaceNotice);
  }
  /// Events that are due have been told.
  void let_time_pass() {
    for (const Nanos limit = now_ + std::chrono::seconds(1); now_ < limit;) pass();
  }
  const std::string path_ = folder_ + "/disk";
};

TEST_F(EventsTest, EachPathHearsOfADiskThatGrows) {
  std::vector<InitiatorQueue> paths;
  for (int path = 0; path < 2; ++path) {
    paths.push_back(queue(0));
    (void)make_controller(paths.back(), kDisks, kHostNqn);
    want_notices(paths.back());
  }
  EXPECT_EQ(size(paths[0]), 16u);
  resize(32);
  EXPECT_EQ(size(paths[0]), 16u);
  std::array<uint16_t, 2> requests{};
  for (std::size_t path = 0; path < 2; ++path)
    requests[path] = paths[path].submit(admin_command(nvme::kAsyncEventRequest));
  reactors_->look_at_disks();
  for (std::size_t path = 0; path < 2; ++path) {
    expect_notice(paths[path], requests[path]);
    EXPECT_EQ(changed(paths[path]), (std::array<uint32_t, 2>{2, 0}));
    EXPECT_EQ(changed(paths[path]), (std::array<uint32_t, 2>{0, 0}));
    EXPECT_EQ(size(paths[path]), 32u);
  }
}

TEST_F(EventsTest, ComeOnceUntilTheLogIsRead) {
  InitiatorQueue admin = queue(0);
  (void)make_controller(admin, kDisks, kHostNqn);
  want_notices(admin);
  resize(32);
  reactors_->look_at_disks();
  // The request may come later than the event.
  expect_notice(admin, admin.submit(admin_command(nvme::kAsyncEventRequest)));
  const uint16_t next = admin.submit(admin_command(nvme::kAsyncEventRequest));
  resize(48);
  reactors_->look_at_disks();
  let_time_pass();
  EXPECT_FALSE(admin.poll());
  EXPECT_EQ(changed(admin, nvme::kRetainEvent), (std::array<uint32_t, 2>{2, 0}));
  let_time_pass();
  EXPECT_FALSE(admin.poll());
  EXPECT_EQ(changed(admin), (std::array<uint32_t, 2>{2, 0}));
  resize(16);
  reactors_->look_at_disks();
  expect_notice(admin, next);
  EXPECT_EQ(size(admin), 16u);
}

TEST_F(EventsTest, AreForWholeBlocksAndForHostsThatWantThem) {
  InitiatorQueue admin = queue(0);
  (void)make_controller(admin, kDisks, kHostNqn);
  const uint16_t request = admin.submit(admin_command(nvme::kAsyncEventRequest));
  resize(32);
  reactors_->look_at_disks();
  let_time_pass();
  EXPECT_FALSE(admin.poll()) << "nobody has asked for notices";
  EXPECT_EQ(changed(admin), (std::array<uint32_t, 2>{2, 0})) << "the log has it all the same";
  want_notices(admin);
  resize(32, 100);
  reactors_->look_at_disks();
  resize(0);
  reactors_->look_at_disks();
  let_time_pass();
  EXPECT_FALSE(admin.poll()) << "a part of a block is none, and a disk without a block keeps its size";
  EXPECT_EQ(size(admin), 32u);
  resize(33);
  reactors_->look_at_disks();
  expect_notice(admin, request);
}

TEST_F(EventsTest, AResetForgetsWhatChanged) {
  InitiatorQueue admin = queue(0);
  (void)make_controller(admin, kDisks, kHostNqn);
  resize(32);
  reactors_->look_at_disks();
  for (const uint32_t enable : {0u, nvme::kCcEnable | 0x460000u}) {
    EXPECT_EQ(status_of(admin.call(property_set(nvme::kCc, enable))), Status::success);
  }
  EXPECT_EQ(changed(admin), (std::array<uint32_t, 2>{0, 0}));
}

TEST_F(EventsTest, IoFollowsTheSize) {
  InitiatorQueue admin = queue(0), io = queue(1);
  const uint16_t controller = make_controller(admin, kDisks, kHostNqn);
  ASSERT_EQ(status_of(io.connect(kDisks, kHostNqn, 1, controller)), Status::success);
  const auto read = [&] { return status_of(io.call(io.keyed(io_command(nvme::kRead, 2, 31, 1), 0, kDiskBlock))); };
  EXPECT_EQ(read(), Status::lba_out_of_range);
  resize(32);
  reactors_->look_at_disks();
  EXPECT_EQ(read(), Status::success);
  resize(16);
  EXPECT_NE(read(), Status::success) << "the file ends before the block";
  reactors_->look_at_disks();
  EXPECT_EQ(read(), Status::lba_out_of_range);
}

TEST_F(EventsTest, FeaturesThatAreKept) {
  InitiatorQueue admin = queue(0);
  (void)make_controller(admin, kDisks, kHostNqn);
  const auto get = [&](uint32_t feature, uint32_t cdw11 = 0) {
    const auto response = admin.call(admin_command(nvme::kGetFeatures, 0, feature, cdw11));
    return status_of(response) == Status::success ? static_cast<int64_t>(response.result) : -1;
  };
  const auto set = [&](uint32_t feature, uint32_t cdw11) {
    return status_of(admin.call(admin_command(nvme::kSetFeatures, 0, feature, cdw11)));
  };
  constexpr uint32_t kUnder = 1u << 20;
  EXPECT_EQ(get(nvme::kArbitration), 7);
  EXPECT_EQ(get(nvme::kPowerManagement), 0);
  EXPECT_EQ(get(nvme::kTemperatureThreshold), nvme::kWarningKelvin);
  EXPECT_EQ(get(nvme::kTemperatureThreshold, kUnder), 0);
  EXPECT_EQ(get(nvme::kErrorRecovery), 0);
  EXPECT_EQ(get(nvme::kWriteAtomicity), 0);
  EXPECT_EQ(get(nvme::kTemperatureThreshold, 1u << 16), -1) << "there is no such sensor";
  EXPECT_EQ(get(0x03), -1);

  EXPECT_EQ(set(nvme::kArbitration, 3), Status::success);
  EXPECT_EQ(get(nvme::kArbitration), 3);
  EXPECT_EQ(set(nvme::kPowerManagement, 1), Status::invalid_field);
  EXPECT_EQ(set(nvme::kPowerManagement, 0), Status::success);
  EXPECT_EQ(set(nvme::kTemperatureThreshold, 15u << 16 | kUnder | 280), Status::success);
  EXPECT_EQ(get(nvme::kTemperatureThreshold, kUnder), 280);
  EXPECT_EQ(set(nvme::kTemperatureThreshold, 1u << 16 | 280), Status::invalid_field);
  EXPECT_EQ(set(nvme::kErrorRecovery, 1u << 16), Status::invalid_field);
  EXPECT_EQ(set(nvme::kErrorRecovery, 5), Status::success);
  EXPECT_EQ(get(nvme::kErrorRecovery), 5);

  for (const uint32_t offset : {nvme::kNssr, nvme::kCmbloc, nvme::kCmbsz, nvme::kBpinfo, nvme::kPmrcap}) {
    const auto part = admin.call(property_get(offset, false));
    EXPECT_EQ(status_of(part), Status::success) << offset;
    EXPECT_EQ(part.result, 0u) << offset;
  }
  EXPECT_EQ(status_of(admin.call(property_get(0x24, false))), Status::invalid_field);

  InitiatorQueue discovery = queue(0);
  (void)make_controller(discovery, nvme::kDiscoveryNqn, kHostNqn);
  EXPECT_EQ(status_of(discovery.call(admin_command(nvme::kGetFeatures, 0, nvme::kArbitration))), Status::invalid_field);
}

}  // namespace
}  // namespace uroce::nvmf

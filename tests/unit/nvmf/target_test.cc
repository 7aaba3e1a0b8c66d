// A host connects, reads and writes: Connect, Identify, I/O and discovery over RDMA.
#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "target_over_rdma.h"

namespace uroce::nvmf {
namespace {

constexpr uint32_t kBlock = 512;

void fill(std::span<std::byte> bytes, uint32_t seed) {
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>((i * 2654435761u + seed) >> 13);
}

template <class Page>
Page page_of(InitiatorQueue& queue, std::size_t offset = 0) {
  Page page;
  std::memcpy(&page, queue.data().data() + offset, sizeof page);
  return page;
}

class TargetTest : public TargetOverRdma {
 protected:
  TargetTest() { serve({{.memory_bytes = 4 << 20}}); }

  /// An I/O queue of a controller.
  InitiatorQueue io_queue(uint16_t controller, uint16_t id = 1) {
    InitiatorQueue made = queue(id);
    const auto connected = made.connect(kDisks, kHostNqn, id, controller);
    EXPECT_EQ(status_of(connected), Status::success);
    return made;
  }
};

TEST_F(TargetTest, ConnectAndIdentify) {
  InitiatorQueue admin = queue(0);
  const uint16_t id = make_controller(admin, kDisks, kHostNqn);
  EXPECT_EQ(admin.call(property_get(nvme::kVs, false)).result, nvme::kVersion);
  EXPECT_EQ(admin.call(property_get(nvme::kCap, true)).result & 0xffff, kQueueEntries - 1);

  auto identify = [&](uint8_t cns, uint32_t nsid) {
    return status_of(admin.call(admin.keyed(admin_command(nvme::kIdentify, nsid, cns), 0, 4096)));
  };
  ASSERT_EQ(identify(nvme::kCnsController, 0), Status::success);
  const auto controller = page_of<nvme::IdentifyController>(admin);
  EXPECT_EQ(controller.cntlid, id);
  EXPECT_STREQ(controller.subnqn.data(), kDisks);
  EXPECT_EQ(controller.ioccsz * 16, 64 + kInCapsuleBytes);
  EXPECT_EQ(controller.nn, 1u);
  ASSERT_EQ(identify(nvme::kCnsNamespace, 1), Status::success);
  EXPECT_EQ(page_of<nvme::IdentifyNamespace>(admin).nsze, (4u << 20) / kBlock);
  ASSERT_EQ(identify(nvme::kCnsActiveList, 0), Status::success);
  EXPECT_EQ((page_of<std::array<uint32_t, 2>>(admin)), (std::array<uint32_t, 2>{1, 0}));
  ASSERT_EQ(identify(nvme::kCnsDescriptors, 1), Status::success);
  EXPECT_EQ(admin.data()[0], std::byte{nvme::kNguid});
  EXPECT_EQ(identify(nvme::kCnsDescriptors, 2), Status::invalid_namespace);
  EXPECT_EQ(identify(0x55, 0), Status::invalid_field);
}

TEST_F(TargetTest, ReadsWhatWasWritten) {
  InitiatorQueue admin = queue(0);
  InitiatorQueue io = io_queue(make_controller(admin, kDisks, kHostNqn));
  const auto data = io.data();
  // By RDMA READ, and in the capsule.
  fill(data.first(kTransferBytes), 1);
  EXPECT_EQ(status_of(io.call(io.keyed(io_command(nvme::kWrite, 1, 0, 256), 0, kTransferBytes))), Status::success);
  std::vector<std::byte> small(kInCapsuleBytes);
  fill(small, 2);
  EXPECT_EQ(
      status_of(io.call(InitiatorQueue::in_capsule(io_command(nvme::kWrite, 1, 300, 16), 0, kInCapsuleBytes), small)),
      Status::success);
  EXPECT_EQ(status_of(io.call(io_command(nvme::kFlush, 1))), Status::success);

  const auto back = data.subspan(kTransferBytes, kTransferBytes);
  EXPECT_EQ(status_of(io.call(io.keyed(io_command(nvme::kRead, 1, 0, 256), kTransferBytes, kTransferBytes))),
            Status::success);
  EXPECT_TRUE(std::ranges::equal(back, data.first(kTransferBytes)));
  EXPECT_EQ(status_of(io.call(io.keyed(io_command(nvme::kRead, 1, 300, 16), kTransferBytes, kInCapsuleBytes))),
            Status::success);
  EXPECT_TRUE(std::ranges::equal(back.first(kInCapsuleBytes), small));

  EXPECT_EQ(status_of(io.call(io_command(nvme::kWriteZeroes, 1, 1, 1))), Status::success);
  nvme::DatasetRange range{.attributes = 0, .blocks = 2, .first_block = 4};
  nvme::Command trim = io_command(nvme::kDatasetManagement, 1);
  trim.cdw10 = 0;
  trim.cdw11 = nvme::kDeallocate;
  EXPECT_EQ(status_of(io.call(InitiatorQueue::in_capsule(trim, 0, sizeof range), std::as_bytes(std::span(&range, 1)))),
            Status::success);
  // As Linux does it: room for 256 ranges, of which one is meant.
  std::array<nvme::DatasetRange, 256> ranges{};
  ranges[0] = {.attributes = 0, .blocks = 1, .first_block = 6};
  ranges[1] = {.attributes = 0, .blocks = 1, .first_block = 2};
  EXPECT_EQ(status_of(io.call(InitiatorQueue::in_capsule(trim, 0, sizeof ranges), std::as_bytes(std::span(ranges)))),
            Status::success);
  EXPECT_EQ(
      status_of(io.call(InitiatorQueue::in_capsule(trim, 0, sizeof range - 1), std::as_bytes(std::span(&range, 1)))),
      Status::sgl_length_invalid);
  EXPECT_EQ(status_of(io.call(io.keyed(io_command(nvme::kRead, 1, 0, 8), kTransferBytes, 8 * kBlock))),
            Status::success);
  const auto all_zero = [](auto bytes) {
    return std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{0}; });
  };
  EXPECT_TRUE(all_zero(back.subspan(1 * kBlock, kBlock)) && all_zero(back.subspan(4 * kBlock, 3 * kBlock)));
  EXPECT_TRUE(std::ranges::equal(back.subspan(2 * kBlock, 2 * kBlock), data.subspan(2 * kBlock, 2 * kBlock)));
}

/// A disk past the page cache, which takes data from whole blocks of memory alone.
class FileTest : public TargetOverRdma {
 protected:
  FileTest() {
    std::filesystem::create_directories(folder_);
    std::ofstream(path_).close();
    std::filesystem::resize_file(path_, 1 << 20);
    serve({{.path = path_}});
  }
  const std::string path_ = folder_ + "/disk";
};

TEST_F(FileTest, TakesDataFromAnyPlaceInTheCapsule) {
  InitiatorQueue admin = queue(0), io = queue(1);
  const uint16_t controller = make_controller(admin, kDisks, kHostNqn);
  ASSERT_EQ(status_of(io.connect(kDisks, kHostNqn, 1, controller)), Status::success);
  constexpr uint32_t kFileBlock = 4096;
  for (const uint32_t offset : {0u, 4u, 1000u, 4092u, 4096u}) {
    std::vector<std::byte> capsule(kInCapsuleBytes);
    fill(capsule, offset + 1);
    EXPECT_EQ(
        status_of(io.call(InitiatorQueue::in_capsule(io_command(nvme::kWrite, 1, 3, 1), offset, kFileBlock), capsule)),
        Status::success)
        << offset;
    EXPECT_EQ(status_of(io.call(io.keyed(io_command(nvme::kRead, 1, 3, 1), 0, kFileBlock))), Status::success);
    EXPECT_TRUE(std::ranges::equal(io.data().first(kFileBlock), std::span(capsule).subspan(offset, kFileBlock)))
        << offset;
  }
}

TEST_F(TargetTest, InvalidatesTheKeyThatItIsTold) {
  InitiatorQueue admin = queue(0);
  InitiatorQueue io = io_queue(make_controller(admin, kDisks, kHostNqn));
  std::vector<std::byte> memory(4096, std::byte{7});
  auto region = test::must(io.pd().register_memory(
      memory.data(), memory.size(), Access::local_write | Access::remote_write | Access::remote_invalidate));
  const auto read =
      InitiatorQueue::described(io_command(nvme::kRead, 1, 0, 8), reinterpret_cast<uint64_t>(memory.data()), 4096,
                                region.rkey(), nvme::kSglKeyedInvalidate);
  EXPECT_EQ(status_of(io.call(read)), Status::success);
  EXPECT_EQ(io.invalidated(), region.rkey());
  EXPECT_EQ(memory[4095], std::byte{0});
}

TEST_F(TargetTest, KeepsManyCommandsInFlightWithFewBuffers) {
  InitiatorQueue admin = queue(0);
  InitiatorQueue io = io_queue(make_controller(admin, kDisks, kHostNqn));
  fill(io.data(), 3);
  for (const uint8_t opcode : {nvme::kWrite, nvme::kRead}) {
    for (uint32_t i = 0; i < 15; ++i) {
      (void)io.submit(io.keyed(io_command(opcode, 1, i * 64, 64), i * 64 * kBlock, 64 * kBlock));
    }
    for (uint32_t i = 0; i < 15; ++i) EXPECT_EQ(status_of(*io.next()), Status::success);
    std::vector<std::byte> expected(15 * 64 * kBlock);
    fill(expected, 3);
    EXPECT_TRUE(std::ranges::equal(io.data().first(expected.size()), expected));
    if (opcode == nvme::kWrite) std::ranges::fill(io.data(), std::byte{0});
  }
}

TEST_F(TargetTest, TellsWhatThereIs) {
  InitiatorQueue admin = queue(0);
  (void)make_controller(admin, nvme::kDiscoveryNqn, kHostNqn);
  ASSERT_EQ(status_of(admin.call(admin.keyed(log_command(nvme::kDiscoveryLog, 2048), 0, 2048))), Status::success);
  EXPECT_EQ(page_of<nvme::DiscoveryHeader>(admin).records, 1u);
  const auto entry = page_of<nvme::DiscoveryEntry>(admin, 1024);
  EXPECT_STREQ(entry.subsystem_nqn.data(), kDisks);
  EXPECT_EQ(std::string_view(entry.service_id.data(), 5), "4420 ");
  // A part of the page.
  ASSERT_EQ(status_of(admin.call(admin.keyed(log_command(nvme::kDiscoveryLog, 256, 1024 + 256), 0, 256))),
            Status::success);
  EXPECT_STREQ(reinterpret_cast<const char*>(admin.data().data()), kDisks);

  InitiatorQueue other = queue(0);
  (void)make_controller(other, nvme::kDiscoveryNqn, "nqn.2024-01.org.example:stranger");
  ASSERT_EQ(status_of(other.call(other.keyed(log_command(nvme::kDiscoveryLog, 1024), 0, 1024))), Status::success);
  EXPECT_EQ(page_of<nvme::DiscoveryHeader>(other).records, 0u) << "not a host of the allow-list";

  InitiatorQueue nameless = queue(0);
  (void)make_controller(nameless, nvme::kDiscoveryNqn, "");
  EXPECT_EQ(status_of(nameless.call(nameless.keyed(log_command(nvme::kDiscoveryLog, 1024), 0, 1024))), Status::success)
      << "any host may discover";
}

class PortalsTest : public TargetOverRdma {
 protected:
  std::vector<std::string> listed(const ListenSettings& listen) {
    serve({{.memory_bytes = 4 << 20}}, listen);
    InitiatorQueue admin = queue(0);
    (void)make_controller(admin, nvme::kDiscoveryNqn, kHostNqn);
    EXPECT_EQ(status_of(admin.call(admin.keyed(log_command(nvme::kDiscoveryLog, 4096), 0, 4096))), Status::success);
    std::vector<std::string> out;
    for (uint64_t at = 1; at <= page_of<nvme::DiscoveryHeader>(admin).records; ++at) {
      const auto entry = page_of<nvme::DiscoveryEntry>(admin, at * 1024);
      const std::string_view address(entry.address.data(), entry.address.size());
      out.emplace_back(address.substr(0, address.find(' ')));
      EXPECT_EQ(entry.address_family, out.back().contains(':') ? 2 : 1);
      EXPECT_EQ(entry.port_id, at);
    }
    host_.reset();
    reactors_.reset();
    return out;
  }
  // Addresses of devices 1 and 2, both of the target's daemon.
  const std::string mine_ = "10.0.0.2", other_ = "10.0.0.3";
};

TEST_F(PortalsTest, AreAllInTheDiscoveryLog) {
  using Addresses = std::vector<std::string>;
  EXPECT_EQ(listed({}), Addresses{mine_});
  EXPECT_EQ(listed({.addresses = {"::"}}), Addresses{mine_});
  EXPECT_EQ(listed({.addresses = {other_, mine_}}), (Addresses{other_, mine_}));
}

TEST_F(PortalsTest, AreAddresses) {
  const auto portals = ListenSettings{.addresses = {"192.0.2.1", "eth0"}}.portals();
  ASSERT_FALSE(portals);
  EXPECT_NE(portals.error().text.find("cannot listen on eth0"), std::string::npos) << portals.error().text;
}

}  // namespace
}  // namespace uroce::nvmf

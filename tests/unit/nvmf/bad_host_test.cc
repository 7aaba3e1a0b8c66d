// Hosts that break the protocol, and hosts that die: the specification's status, or the end of the connection.
#include <algorithm>
#include <cstring>
#include <vector>

#include "target_over_rdma.h"

namespace uroce::nvmf {
namespace {

using nvme::CmStatus;
using namespace std::chrono_literals;

class BadHost : public TargetOverRdma {
 protected:
  BadHost() { serve({{.memory_bytes = 1 << 20}}); }

  CmStatus rejection(const nvme::CmRequest& request) {
    try {
      InitiatorQueue made(*host_, address(), std::as_bytes(std::span(&request, 1)), 4);
    } catch (const test::Rejected& rejected) {
      return static_cast<CmStatus>(rejected.status);
    }
    return CmStatus{};
  }
  /// The status of a command, DNR set.
  static Status refused(const nvme::Response& response) {
    EXPECT_NE(response.status >> 1 & nvme::kDoNotRetry, 0);
    return status_of(response);
  }
  /// Whether the target still serves others.
  void expect_service() {
    InitiatorQueue admin = queue(0);
    (void)make_controller(admin, kDisks, kHostNqn);
  }
};

TEST_F(BadHost, ConnectionsOnImpossibleTermsAreRejected) {
  const nvme::CmRequest good{
      .format = 0, .queue_id = 0, .host_receive_size = 16, .host_send_size = 15, .controller_id = 0, .reserved = {}};
  auto changed = [&](auto change) {
    nvme::CmRequest request = good;
    change(request);
    return rejection(request);
  };
  EXPECT_EQ(changed([](auto& r) { r.format = 1; }), CmStatus::invalid_format);
  EXPECT_EQ(changed([](auto& r) { r.queue_id = kIoQueues + 1; }), CmStatus::invalid_queue_id);
  EXPECT_EQ(changed([](auto& r) { r.host_send_size = 0; }), CmStatus::invalid_send_size);
  EXPECT_EQ(changed([](auto& r) { r.host_send_size = 0xffff; }), CmStatus::invalid_send_size);
  EXPECT_EQ(changed([](auto& r) { r.host_receive_size = 0; }), CmStatus::invalid_receive_size);
  EXPECT_EQ(changed([](auto&) {}), CmStatus{});
}

TEST_F(BadHost, ConnectNamesWhatIsWrong) {
  InitiatorQueue admin = queue(0);
  // IPO, and IATTR for a fault in the data.
  auto wrong = admin.connect("nqn.2024-01.org.example:other", kHostNqn, 0);
  EXPECT_EQ(refused(wrong), Status::connect_invalid_parameters);
  EXPECT_EQ(wrong.result, 1u << 16 | 256);
  EXPECT_EQ(refused(admin.connect(kDisks, "nqn.2024-01.org.example:stranger", 0)), Status::connect_invalid_host);
  EXPECT_EQ(refused(admin.connect(kDisks, "", 0)), Status::connect_invalid_host) << "there is an allow-list";
  EXPECT_EQ(refused(admin.connect(kDisks, "no name", 0)), Status::connect_invalid_parameters);
  EXPECT_EQ(refused(admin.connect(kDisks, std::string(256, 'n'), 0)), Status::connect_invalid_parameters);
  EXPECT_EQ(refused(admin.connect(kDisks, kHostNqn, 3)), Status::connect_invalid_parameters)
      << "another queue's number";
  EXPECT_EQ(refused(admin.connect(kDisks, kHostNqn, 0, 5)), Status::connect_invalid_parameters)
      << "a controller of its choice";
  EXPECT_EQ(refused(admin.call(property_get(nvme::kCap, true))), Status::command_sequence_error);
  EXPECT_EQ(refused(admin.call(admin_command(nvme::kKeepAlive))), Status::command_sequence_error);

  const auto controller = static_cast<uint16_t>(admin.connect(kDisks, kHostNqn, 0).result);
  EXPECT_EQ(refused(admin.connect(kDisks, kHostNqn, 0)), Status::command_sequence_error) << "a second Connect";
  EXPECT_EQ(refused(admin.call(admin_command(nvme::kKeepAlive))), Status::command_sequence_error) << "not enabled";
  InitiatorQueue io = queue(1);
  EXPECT_EQ(refused(io.connect(kDisks, kHostNqn, 1, controller)), Status::command_sequence_error) << "not enabled";
  (void)admin.call(property_set(nvme::kCc, 0x460001));
  EXPECT_EQ(refused(io.connect(kDisks, kHostNqn, 1, controller + 1)), Status::connect_invalid_parameters);
  EXPECT_EQ(status_of(io.connect(kDisks, kHostNqn, 1, controller)), Status::success);
  InitiatorQueue second = queue(1);
  EXPECT_EQ(refused(second.connect(kDisks, kHostNqn, 1, controller)), Status::connect_invalid_parameters) << "taken";
}

TEST_F(BadHost, CommandsThatDoNotFitAreRefused) {
  InitiatorQueue admin = queue(0), io = queue(1);
  const uint16_t controller = make_controller(admin, kDisks, kHostNqn);
  ASSERT_EQ(status_of(io.connect(kDisks, kHostNqn, 1, controller)), Status::success);
  const auto read = [&](uint64_t first, uint32_t blocks, uint32_t bytes) {
    return refused(io.call(io.keyed(io_command(nvme::kRead, 1, first, blocks), 0, bytes)));
  };
  EXPECT_EQ(read(2048, 1, 512), Status::lba_out_of_range);
  EXPECT_EQ(read(2047, 2, 1024), Status::lba_out_of_range);
  EXPECT_EQ(read(~uint64_t{0}, 1, 512), Status::lba_out_of_range);
  EXPECT_EQ(read(0, 257, 257 * 512), Status::invalid_field) << "above MDTS";
  EXPECT_EQ(read(0, 2, 512), Status::sgl_length_invalid);
  EXPECT_EQ(read(0, 1, 1024), Status::sgl_length_invalid);
  EXPECT_EQ(refused(io.call(io.keyed(io_command(nvme::kRead, 2), 0, 512))), Status::invalid_namespace);
  EXPECT_EQ(refused(io.call(io_command(0x70, 1))), Status::invalid_opcode);
  EXPECT_EQ(refused(io.call(io_command(nvme::kWriteZeroes, 1, 2048, 1))), Status::lba_out_of_range);
  const auto write = io_command(nvme::kWrite, 1);
  const std::vector<std::byte> block(512);
  EXPECT_EQ(refused(io.call(InitiatorQueue::in_capsule(write, 0, 513), block)), Status::sgl_length_invalid);
  EXPECT_EQ(refused(io.call(InitiatorQueue::in_capsule(write, 513, 0), block)), Status::sgl_offset_invalid);
  EXPECT_EQ(refused(io.call(InitiatorQueue::in_capsule(io_command(nvme::kRead, 1), 0, 512), block)),
            Status::sgl_type_invalid);
  EXPECT_EQ(refused(io.call(InitiatorQueue::described(write, 0, 512, 0, 0x20))), Status::sgl_type_invalid);
  auto prp = write;
  prp.flags = 0x80;
  EXPECT_EQ(refused(io.call(prp)), Status::invalid_field);
  std::array<nvme::DatasetRange, 2> ranges{
      {{.attributes = 0, .blocks = 1, .first_block = 0}, {.attributes = 0, .blocks = 1, .first_block = 2048}}};
  auto trim = io_command(nvme::kDatasetManagement, 1);
  trim.cdw10 = 1;
  trim.cdw11 = nvme::kDeallocate;
  EXPECT_EQ(refused(io.call(InitiatorQueue::in_capsule(trim, 0, sizeof ranges), std::as_bytes(std::span(ranges)))),
            Status::lba_out_of_range);
  EXPECT_EQ(status_of(io.call(io_command(nvme::kFlush, 1))), Status::success) << "the queue lives on";
}

TEST_F(BadHost, CapsulesOfAnotherSizeEndTheConnection) {
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{63}, InitiatorQueue::kCapsuleBytes + 1}) {
    InitiatorQueue admin = queue(0);
    admin.send(std::vector<std::byte>(bytes));
    EXPECT_FALSE(admin.next().has_value()) << bytes;
  }
  expect_service();
}

TEST_F(BadHost, KeysThatOpenNothingEndTheConnection) {
  for (const uint8_t opcode : {nvme::kRead, nvme::kWrite}) {
    InitiatorQueue admin = queue(0), io = queue(1);
    ASSERT_EQ(status_of(io.connect(kDisks, kHostNqn, 1, make_controller(admin, kDisks, kHostNqn))), Status::success);
    (void)io.submit(InitiatorQueue::described(io_command(opcode, 1), 0x1000, 512, 0xdead, nvme::kSglKeyed));
    EXPECT_FALSE(io.next().has_value());
    EXPECT_EQ(status_of(admin.call(admin_command(nvme::kKeepAlive))), Status::success) << "the admin queue lives on";
  }
  expect_service();
}

TEST_F(BadHost, AnOverrunQueueIsServedOrEnded) {
  InitiatorQueue admin = queue(0, 4);
  (void)make_controller(admin, kDisks, kHostNqn);
  // The target has four receives. It refuses what comes too early by RNR NAKs, each of which costs 655 ms.
  std::vector<uint16_t> sent, answered;
  for (int i = 0; i < 8; ++i) sent.push_back(admin.submit(admin_command(nvme::kKeepAlive)));
  while (answered.size() < sent.size()) {
    const auto response = admin.next();
    if (!response) break;
    EXPECT_EQ(status_of(*response), Status::success);
    answered.push_back(response->command_id);
  }
  sent.resize(answered.size());
  EXPECT_EQ(answered, sent);
  expect_service();
}

TEST_F(BadHost, EventRequestsHaveALimitAndCanBeAborted) {
  InitiatorQueue admin = queue(0);
  (void)make_controller(admin, kDisks, kHostNqn);
  const uint16_t first = admin.submit(admin_command(nvme::kAsyncEventRequest));
  for (uint32_t i = 1; i < kAsyncEvents; ++i) (void)admin.submit(admin_command(nvme::kAsyncEventRequest));
  EXPECT_EQ(refused(admin.call(admin_command(nvme::kAsyncEventRequest))), Status::async_event_limit);
  (void)admin.submit(admin_command(nvme::kAbort, 0, uint32_t{first} << 16));
  const auto aborted = *admin.next();
  EXPECT_EQ(aborted.command_id, first);
  EXPECT_EQ(status_of(aborted), Status::aborted);
  EXPECT_EQ(admin.next()->result, 0u);
  EXPECT_EQ(admin.call(admin_command(nvme::kAbort, 0, uint32_t{first} << 16)).result, 1u) << "nothing left to abort";
  (void)admin.submit(admin_command(nvme::kAsyncEventRequest));
}

TEST_F(BadHost, AResetEndsIoQueuesAndEventRequests) {
  step_ = 100ns;  // the old queue is looked for later
  InitiatorQueue admin = queue(0), old = queue(1);
  const uint16_t controller = make_controller(admin, kDisks, kHostNqn);
  ASSERT_EQ(status_of(old.connect(kDisks, kHostNqn, 1, controller)), Status::success);
  std::vector<uint16_t> held;
  for (uint32_t i = 0; i < kAsyncEvents; ++i) held.push_back(admin.submit(admin_command(nvme::kAsyncEventRequest)));
  (void)admin.submit(property_set(nvme::kCc, 0x460000));
  std::vector<uint16_t> ended;
  for (uint32_t i = 0; i < kAsyncEvents; ++i) {
    const auto response = *admin.next();
    EXPECT_EQ(status_of(response), Status::aborted);
    ended.push_back(response.command_id);
  }
  std::ranges::sort(ended);
  EXPECT_EQ(ended, held);
  EXPECT_EQ(status_of(*admin.next()), Status::success);
  EXPECT_EQ(refused(old.call(io_command(nvme::kFlush, 1))), Status::command_sequence_error);

  (void)admin.call(property_set(nvme::kCc, 0x460001));
  InitiatorQueue young = queue(1);
  EXPECT_EQ(status_of(young.connect(kDisks, kHostNqn, 1, controller)), Status::success);
  EXPECT_EQ(status_of(young.call(io_command(nvme::kFlush, 1))), Status::success);
  now_ += 1s;
  EXPECT_FALSE(old.next().has_value());
  EXPECT_EQ(status_of(young.call(io_command(nvme::kFlush, 1))), Status::success);
  (void)admin.submit(admin_command(nvme::kAsyncEventRequest));
  EXPECT_EQ(status_of(admin.call(admin_command(nvme::kKeepAlive))), Status::success);
}

TEST_F(BadHost, ASilentHostLosesItsController) {
  InitiatorQueue admin = queue(0), io = queue(1);
  const uint16_t controller = make_controller(admin, kDisks, kHostNqn, 1000);
  ASSERT_EQ(status_of(io.connect(kDisks, kHostNqn, 1, controller)), Status::success);
  // Commands on any queue restart the timer.
  for (int i = 0; i < 5; ++i) {
    now_ += 900ms;
    EXPECT_EQ(status_of(io.call(io_command(nvme::kFlush, 1))), Status::success);
  }
  now_ += 3s;
  EXPECT_FALSE(admin.next().has_value());
  EXPECT_FALSE(io.next().has_value()) << "the queues of a controller end together";
  expect_service();
}

TEST_F(BadHost, AnEndingTargetTellsItsHosts) {
  InitiatorQueue admin = queue(0);
  (void)make_controller(admin, kDisks, kHostNqn);
  reactors_->close();
  EXPECT_FALSE(admin.next().has_value());
  EXPECT_THROW(queue(0), test::Rejected);
  while (reactors_->connections().queues() > 0) reactors_->poll(0, now_ += 1ms);
}

TEST_F(BadHost, ConnectionsWithoutConnectEnd) {
  InitiatorQueue idle = queue(0);
  now_ += 31s;
  EXPECT_FALSE(idle.next().has_value());
}

}  // namespace
}  // namespace uroce::nvmf

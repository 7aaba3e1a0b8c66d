// Registrations in several messages, as the daemon's dispatch serves them: whole ones, and what a hostile program makes
// of them.
#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "message/hello_messages.h"
#include "message/memory_messages.h"
#include "queues/layout.h"
#include "service/memory_operations.h"
#include "tests/fuzz/hostile_program.h"
#include "tests/unit/client/endpoints.h"

namespace uroce::service {
namespace {

using message::AddSegments;
using message::Fd;
using message::Op;
using message::PrepareMemory;
using message::Segment;

constexpr uint64_t kPiece = 4096, kAddress = 0x7000000000;
constexpr uint32_t kOrdinary = 1000;

Fd page_file(char content) {
  Fd fd(memfd_create("page", MFD_CLOEXEC));
  EXPECT_EQ(ftruncate(fd.get(), kPiece), 0);
  EXPECT_EQ(pwrite(fd.get(), &content, 1, 0), 1);
  return fd;
}

std::size_t mappings() {
  std::ifstream maps("/proc/self/maps");
  std::size_t count = 0;
  for (std::string line; std::getline(maps, line);) ++count;
  return count;
}

std::size_t descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

class PreparedMemory : public testing::Test {
 protected:
  PreparedMemory() {
    world_.add();
    view_.all = {world_.device(0)};
    start();
  }
  ~PreparedMemory() override {
    program_.reset();
    world_.stop();
  }
  void start() {
    program_ = std::make_unique<test::HostileProgram>(view_, 1, peer_, users_.of(peer_));
    program_->must<message::HelloReply>(Op::hello, message::Hello{.queue_abi = queues::kAbiVersion});
    program_->must<message::OpenDeviceReply>(Op::open_device, message::OpenDevice{world_.device(0)->config().name});
    pd_ = program_->must<message::Handle>(Op::create_pd, message::Empty{}).id;
  }
  /// The error of a call, whose text holds `what`; 0 where it succeeds.
  template <class Request>
  int error_of(Op op, const Request& request, std::span<const Fd> fds = {}, const std::string& what = {}) {
    std::vector<std::byte> body;
    message::encode(body, request);
    Call call{.op = op, .body = body, .fds = fds};
    const auto answer = serve_call(program_->state(), call);
    if (answer) return 0;
    EXPECT_NE(answer.error().text.find(what), std::string::npos) << answer.error().text;
    return answer.error().code;
  }
  int prepare(uint32_t pages, const std::string& what = {}) {
    return error_of(Op::prepare_memory, plan(pages), {}, what);
  }
  static PrepareMemory plan(uint32_t pages) {
    return {.length = pages * kPiece, .address = kAddress, .writable = true, .segments = pages};
  }
  int add(std::vector<Segment> segments, const std::string& what = {}) {
    const std::array<Fd, 1> fds{page_file('x')};
    return error_of(Op::add_segments, AddSegments{std::move(segments)}, fds, what);
  }
  message::RegisterMemory rest(uint32_t pages) const {
    return {.pd = pd_,
            .base = kAddress,
            .length = pages * kPiece,
            .address = kAddress,
            .access = Access::local_write,
            .prepared = true};
  }
  uint64_t used(Resource resource) { return users_.of(peer_)->used(resource); }
  void expect_nothing_left() {
    EXPECT_EQ(used(Resource::mapping), 0u);
    EXPECT_EQ(used(Resource::registered_bytes), 0u);
    EXPECT_EQ(error_of(Op::add_segments, AddSegments{}, {}, "prepare_memory"), EINVAL);
    EXPECT_EQ(error_of(Op::register_memory, rest(1), {}, "prepare_memory"), EINVAL);
  }

  static constexpr uint64_t kMappings = 2000;
  test::World world_;
  test::ScriptedView view_;
  const PerResource<uint64_t> all_{{Resource::connection, 64},
                                   {Resource::qp, 64},
                                   {Resource::mr, 64},
                                   {Resource::pd, 64},
                                   {Resource::descriptor, 256},
                                   {Resource::mapping, 4 * kMappings},
                                   {Resource::queue_bytes, 64 << 20},
                                   {Resource::registered_bytes, 256 << 20}};
  Users users_{{.shared = all_, .whole = all_}, {}, [](uint32_t, const std::string&) {}};
  const Peer peer_{.pid = 7, .uid = kOrdinary, .privileged = false, .locked_bytes = 0};
  std::unique_ptr<test::HostileProgram> program_;
  uint32_t pd_ = 0;
};

TEST_F(PreparedMemory, HoldsMoreFilesThanAMessage) {
  constexpr uint32_t kPages = 1000, kAtOnce = 100;
  const std::size_t maps = mappings(), open = descriptors();
  ASSERT_EQ(prepare(kPages), 0);
  EXPECT_EQ(used(Resource::mapping), kPages) << "before its first segment";
  for (uint32_t done = 0; done < kPages; done += kAtOnce) {
    std::vector<Fd> fds;
    AddSegments part;
    for (uint32_t i = 0; i < kAtOnce; ++i) {
      fds.push_back(page_file(static_cast<char>((done + i) % 127)));
      part.segments.push_back({.fd = i, .offset = 0, .length = kPiece});
    }
    ASSERT_EQ(error_of(Op::add_segments, part, fds), 0);
  }
  EXPECT_EQ(descriptors(), open) << "the mappings stay, the descriptors do not";
  const auto made = program_->must<message::RegisterMemoryReply>(Op::register_memory, rest(kPages));
  auto region = *program_->state().regions.find(made.id);
  for (uint32_t i = 0; i < kPages; ++i) ASSERT_EQ(region->memory()[i * kPiece], static_cast<std::byte>(i % 127));
  EXPECT_EQ((reinterpret_cast<uint64_t>(region->memory()) - kAddress) % (uint64_t{1} << 30), 0u);
  EXPECT_GE(mappings(), maps + kPages);
  EXPECT_EQ(used(Resource::mapping), kPages);
  region.reset();
  ASSERT_EQ(prepare(2), 0) << "and the next one";
  ASSERT_EQ(add({{0, 0, kPiece}, {0, 0, kPiece}}), 0);
  ASSERT_EQ(error_of(Op::reregister_memory, message::ReregisterMemory{.region = made.id, .now = rest(2)}), 0);
  EXPECT_EQ((*program_->state().regions.find(made.id))->memory()[kPiece], std::byte{'x'});
  EXPECT_EQ(error_of(Op::destroy, message::Destroy{message::Kind::mr, made.id}), 0);
  expect_nothing_left();
  EXPECT_LE(mappings(), maps + kPages / 10) << "the C library may have some";
}

TEST_F(PreparedMemory, RefusesPlansThatCannotBe) {
  const auto refused = [this](const PrepareMemory& wanted, const char* what) {
    const int code = error_of(Op::prepare_memory, wanted, {}, what);
    expect_nothing_left();
    return code;
  };
  EXPECT_EQ(refused({.length = 0, .address = 0, .segments = 0}, "0 bytes"), EINVAL);
  EXPECT_EQ(refused({.length = kPiece, .address = 0, .segments = 0}, "0 segments"), EINVAL);
  EXPECT_EQ(refused({.length = 2 * kPiece, .address = 0, .segments = 3}, "one page or more"), EINVAL);
  EXPECT_EQ(refused({.length = UINT64_MAX, .address = 1, .segments = 1}, "max_registered_bytes"), ENOMEM);
  EXPECT_EQ(refused({.length = 1 << 20, .address = 0, .segments = UINT32_MAX}, "max_mappings"), ENOMEM);
  EXPECT_EQ(refused({.length = kMappings * 2 * kPiece, .address = 0, .segments = kMappings + 1}, "vm.max_map_count"),
            ENOMEM)
      << "before a single segment comes";
}

TEST_F(PreparedMemory, EndsWithEachBadSegment) {
  const struct {
    std::vector<Segment> segments;
    const char* what;
  } bad[] = {{{{1, 0, kPiece}}, "descriptor 1 of 1"},
             {{{0, 0, 0}}, "length 0"},
             {{{0, 1, kPiece}}, "whole pages"},
             {{{0, 0, kPiece - 1}}, "whole pages"},
             {{{0, UINT64_MAX - kPiece + 1, kPiece}}, "offset"},
             {{{0, kPiece, kPiece}}, "of a file that has"},
             {{{0, 0, UINT64_MAX / kPiece * kPiece}}, "pass only the pages"},
             {{{0, 0, kPiece}, {0, 0, kPiece}, {0, 0, kPiece}, {0, 0, kPiece}}, "more segments came than the 3"},
             {{{0, 0, kPiece}, {0, 0, kPiece}, {0, 0, 2 * kPiece}}, "pass only the pages"}};
  const std::size_t maps = mappings();
  for (const auto& [segments, what] : bad) {
    ASSERT_EQ(prepare(3), 0);
    EXPECT_EQ(add(segments, what), EINVAL) << what;
    expect_nothing_left();
  }
  EXPECT_EQ(mappings(), maps);
}

TEST_F(PreparedMemory, EndsWithTheRegistrationDoneOrNot) {
  const auto refused = [this](const std::function<void(message::RegisterMemory&)>& lie, const char* what) {
    EXPECT_EQ(prepare(2), 0);
    EXPECT_EQ(add({{0, 0, kPiece}, {0, 0, kPiece}}), 0);
    auto wanted = rest(2);
    lie(wanted);
    const int code = error_of(Op::register_memory, wanted, {}, what);
    expect_nothing_left();
    return code;
  };
  EXPECT_EQ(refused([](auto& wanted) { wanted.length += kPiece; }, "are prepared"), EINVAL);
  EXPECT_EQ(refused([](auto& wanted) { wanted.address += 8; }, "are prepared"), EINVAL);
  EXPECT_EQ(refused([](auto& wanted) { wanted.access = {}; }, "are prepared"), EINVAL);
  EXPECT_EQ(refused([](auto& wanted) { wanted.segments = {{0, 0, kPiece}}; }, "are prepared"), EINVAL);
  EXPECT_EQ(refused([](auto& wanted) { wanted.pd = 99; }, "protection domain"), EINVAL);
  ASSERT_EQ(prepare(2), 0);
  ASSERT_EQ(add({{0, 0, kPiece}}), 0);
  EXPECT_EQ(error_of(Op::register_memory, rest(2), {}, "1 segments with 4096 bytes came"), EINVAL);
  expect_nothing_left();
  ASSERT_EQ(prepare(2), 0);
  EXPECT_EQ(error_of(Op::reregister_memory, message::ReregisterMemory{.region = 99, .now = rest(2)}), EINVAL);
  expect_nothing_left();
}

TEST_F(PreparedMemory, IsOneAtATime) {
  const std::size_t maps = mappings();
  for (int i = 0; i < 50; ++i) {
    ASSERT_EQ(prepare(kMappings), 0) << "the one before does not count";
    ASSERT_EQ(add({{0, 0, kPiece}, {0, 0, kPiece}}), 0);
    EXPECT_EQ(used(Resource::mapping), kMappings);
  }
  EXPECT_LE(mappings(), maps + 4);
  EXPECT_EQ(error_of(Op::abandon_memory, message::Empty{}), 0);
  EXPECT_EQ(mappings(), maps);
  expect_nothing_left();
  EXPECT_EQ(error_of(Op::abandon_memory, message::Empty{}), 0) << "nothing is there to end";
}

TEST_F(PreparedMemory, EndsWithItsDeviceAndItsProgram) {
  for (const bool dies : {false, true}) {
    ASSERT_EQ(prepare(2), 0);
    ASSERT_EQ(add({{0, 0, kPiece}}), 0);
    if (dies) program_.reset();
    if (!dies) {
      ASSERT_EQ(error_of(Op::close_device, message::Empty{}), 0);
    }
    EXPECT_EQ(used(Resource::mapping), 0u);
    EXPECT_EQ(used(Resource::registered_bytes), 0u);
    start();
    expect_nothing_left();
  }
}

TEST_F(PreparedMemory, LeavesOtherRegistrationsAlone) {
  ASSERT_EQ(prepare(2), 0);
  ASSERT_EQ(add({{0, 0, kPiece}}), 0);
  auto whole = rest(1);
  whole.prepared = false;
  whole.segments = {{0, 0, kPiece}};
  const std::array<Fd, 1> fds{page_file('y')};
  ASSERT_EQ(error_of(Op::register_memory, whole, fds), 0) << "of another thread";
  ASSERT_EQ(add({{0, 0, kPiece}}), 0);
  EXPECT_EQ(error_of(Op::register_memory, rest(2)), 0);
  EXPECT_EQ(program_->state().regions.size(), 2u);
}

}  // namespace
}  // namespace uroce::service

#include "pmd_glue/runtime_folder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>

namespace uroce::glue {
namespace {

namespace fs = std::filesystem;

/// A folder that looks like /var/run/dpdk.
class RuntimeFolder : public testing::Test {
 protected:
  RuntimeFolder() {
    std::string path = fs::temp_directory_path() / "uroce-run-XXXXXX";
    root_ = ::mkdtemp(path.data());
  }
  ~RuntimeFolder() override { fs::remove_all(root_); }

  fs::path add(const std::string& name, bool with_config) {
    fs::create_directory(root_ / name);
    if (with_config) std::ofstream(root_ / name / "config") << "x";
    return root_ / name;
  }
  /// As a program that starts does, so much later.
  void clear_after(fs::file_time_type::duration later) {
    remove_stale_runtime_folders(root_ / "uroce-1", fs::file_time_type::clock::now() + later);
  }

  fs::path root_;
};

/// A process that has done `act` and lives until the end of this object.
class Living {
 public:
  explicit Living(const std::function<void()>& act) {
    int ends[2];
    if (pipe(ends) != 0) std::abort();
    process_ = fork();
    if (process_ == 0) {
      act();
      if (write(ends[1], "x", 1) != 1) _exit(1);
      for (;;) pause();
    }
    char ready = 0;
    if (read(ends[0], &ready, 1) != 1) std::abort();
    close(ends[0]);
    close(ends[1]);
  }
  ~Living() {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  Living(const Living&) = delete;
  Living& operator=(const Living&) = delete;

 private:
  pid_t process_;
};

void lock_as_primary(const fs::path& file) {
  struct flock lock{};
  lock.l_type = F_WRLCK;
  lock.l_len = 1;
  if (fcntl(open(file.c_str(), O_RDWR), F_SETLK, &lock) != 0) _exit(1);
}

void lock_as_secondary(const fs::path& file) {
  if (flock(open(file.c_str(), O_RDWR), LOCK_SH) != 0) _exit(1);
}

void listen_at(const fs::path& path, int type) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.native().copy(address.sun_path, sizeof address.sun_path - 1);
  const int fd = socket(AF_UNIX, type, 0);
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) _exit(1);
  if (type != SOCK_DGRAM && listen(fd, 1) != 0) _exit(1);
}

constexpr std::chrono::minutes kLater{2};
constexpr std::chrono::hours kMuchLater{2};

TEST_F(RuntimeFolder, OfTheDeadGoes) {
  const auto killed = add("uroce-4711", true), named = add("uroce-pair-12-1-0", true), empty = add("uroce-4712", false);
  clear_after(kLater);
  EXPECT_FALSE(fs::exists(killed));
  EXPECT_FALSE(fs::exists(named)) << "with a prefix that a script chose";
  EXPECT_TRUE(fs::exists(empty)) << "perhaps its program is starting, and huge pages take long";
  clear_after(kMuchLater);
  EXPECT_FALSE(fs::exists(empty));
}

TEST_F(RuntimeFolder, OfOthersStays) {
  const auto rte = add("rte", true), theirs = add("roce", false), own = add("uroce-1", true);
  clear_after(kMuchLater);
  for (const fs::path& folder : {rte, theirs, own}) EXPECT_TRUE(fs::exists(folder)) << folder;
  remove_empty_runtime_folder(theirs);
  remove_runtime_folder(rte, true);
  EXPECT_TRUE(fs::exists(theirs));
  EXPECT_TRUE(fs::exists(rte));
}

TEST_F(RuntimeFolder, OfOneThatStartsStays) {
  const auto starting = add("uroce-4711", true);
  clear_after(std::chrono::seconds(1));
  EXPECT_TRUE(fs::exists(starting)) << "it has made its file, and locks it next";
}

TEST_F(RuntimeFolder, OfTheLivingStays) {
  const auto primary = add("uroce-1001", true), secondary = add("uroce-x", true), telemetry = add("uroce-1002", false);
  std::ofstream(secondary / "fbarray_memzone") << "x";
  {
    const Living one([&] { lock_as_primary(primary / "config"); });
    const Living two([&] { lock_as_secondary(secondary / "fbarray_memzone"); });
    const Living three([&] { listen_at(telemetry / "dpdk_telemetry.v2", SOCK_SEQPACKET); });
    clear_after(kMuchLater);
    for (const fs::path& folder : {primary, secondary, telemetry}) {
      EXPECT_TRUE(fs::exists(folder)) << folder;
    }
  }
  clear_after(kMuchLater);
  for (const fs::path& folder : {primary, secondary, telemetry}) EXPECT_FALSE(fs::exists(folder)) << folder;
}

TEST_F(RuntimeFolder, ASecondaryProcessOutlivesItsPrimary) {
  const auto folder = add("uroce-x", true);
  {
    const Living one([&] { listen_at(folder / "mp_socket_12_34", SOCK_DGRAM); });
    EXPECT_TRUE(is_runtime_folder_in_use(folder, false));
    remove_runtime_folder(folder, false);
    EXPECT_TRUE(fs::exists(folder / "config"));
  }
  EXPECT_FALSE(is_runtime_folder_in_use(folder, false));
  remove_runtime_folder(folder, false);
  EXPECT_FALSE(fs::exists(folder));
}

TEST_F(RuntimeFolder, ThisProcessDoesNotKeepItsOwn) {
  const auto given = add("uroce-x", true), own = add("uroce-1", true);
  for (const fs::path& folder : {given, own}) {
    lock_as_primary(folder / "config");
    lock_as_secondary(folder / "config");
    EXPECT_TRUE(is_runtime_folder_in_use(folder, false));
    remove_runtime_folder(folder, folder == own);
    EXPECT_FALSE(fs::exists(folder));
  }
}

TEST_F(RuntimeFolder, AnotherProcessWithTheSameIdKeepsIts) {
  const auto own = add("uroce-1", true);
  const Living one([&] { lock_as_primary(own / "config"); });
  remove_runtime_folder(own, true);
  EXPECT_TRUE(fs::exists(own / "config"));
}

TEST_F(RuntimeFolder, OwnOneGoesWithItsProgram) {
  const auto empty = add("uroce-1", false), full = add("uroce-y", true);
  remove_empty_runtime_folder(full);
  EXPECT_TRUE(fs::exists(full / "config"));
  remove_empty_runtime_folder(empty);
  remove_runtime_folder(full, false);
  EXPECT_TRUE(fs::is_empty(root_));
}

}  // namespace
}  // namespace uroce::glue

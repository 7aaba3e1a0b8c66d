#include "uroce/daemon_process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

namespace uroce::cli {
namespace {

using std::string_view_literals::operator""sv;

TEST(DaemonProcess, ReadsTheStateBehindTheName) {
  EXPECT_FALSE(stopped_process("12 (uroced) S 1 12 12 0 -1"sv));
  const auto stopped = stopped_process("12 (uroced) T 1 12 12 0 -1"sv);
  ASSERT_TRUE(stopped);
  EXPECT_EQ(stopped->id, 12);
  EXPECT_FALSE(stopped->traced);
  EXPECT_TRUE(stopped_process("12 (uroced) t 1 12"sv)->traced);
  EXPECT_FALSE(stopped_process("12 (a) T b) R 1 12"sv)) << "a name with a bracket";
  for (const auto text : {""sv, "12"sv, "12 (uroced"sv, "12 (uroced) "sv, ") "sv}) {
    EXPECT_FALSE(stopped_process(text)) << text;
  }
}

TEST(DaemonProcess, SeesAStoppedChild) {
  EXPECT_FALSE(stopped_process(getpid()));
  EXPECT_FALSE(stopped_process(0));
  const pid_t child = fork();
  if (child == 0) {
    raise(SIGSTOP);
    _exit(0);
  }
  ASSERT_GT(child, 0);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, WUNTRACED), child);
  ASSERT_TRUE(stopped_process(child));
  EXPECT_EQ(stopped_process(child)->id, child);
  kill(child, SIGCONT);
  waitpid(child, &status, 0);
  EXPECT_FALSE(stopped_process(child));
}

TEST(DaemonProcess, WaitingNamesWhatIsKnown) {
  EXPECT_EQ(waiting_text("/s", 0, std::nullopt, 30), "waiting for the uroce daemon at /s: up to 30 s");
  EXPECT_EQ(waiting_text("/s", 12, std::nullopt, 30), "waiting for the uroce daemon at /s (process 12): up to 30 s");
  EXPECT_EQ(waiting_text("/s", 12, StoppedProcess{.id = 12}, 30),
            "waiting for the uroce daemon at /s (process 12, stopped): up to 30 s");
  EXPECT_EQ(waiting_text("/s", 12, StoppedProcess{.id = 12, .traced = true}, 30),
            "waiting for the uroce daemon at /s (process 12, stopped by a debugger): up to 30 s");
}

}  // namespace
}  // namespace uroce::cli

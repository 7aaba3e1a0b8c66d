#include "uroced/notification.h"

#include <gtest/gtest.h>

namespace uroce::daemon {
namespace {

TEST(Notification, KeepsAndForgetsTheEstateAlone) {
  EXPECT_TRUE(read_notification("FDSTORE=1\nFDNAME=uroce-estate\nFDPOLL=0", false).keep);
  EXPECT_TRUE(read_notification("FDNAME=uroce-estate\nFDSTORE=1\n", true).keep);
  EXPECT_TRUE(read_notification("FDSTOREREMOVE=1\nFDNAME=uroce-estate", true).forget);
  for (const char* text : {"FDSTORE=1", "FDSTORE=1\nFDNAME=other", "FDSTORE=0\nFDNAME=uroce-estate",
                           "FDNAME=uroce-estate", "FDSTORE\nFDNAME=uroce-estate", "XFDSTORE=1\nFDNAME=uroce-estate"}) {
    const Notification said = read_notification(text, false);
    EXPECT_FALSE(said.keep || said.forget) << text;
  }
}

TEST(Notification, ForwardsTheStateAndNothingElse) {
  EXPECT_EQ(read_notification("READY=1\nSTATUS=serving a=b, c", false).forwarded, "READY=1\nSTATUS=serving a=b, c");
  EXPECT_EQ(read_notification("RELOADING=1\nMONOTONIC_USEC=17", false).forwarded, "RELOADING=1\nMONOTONIC_USEC=17");
  EXPECT_EQ(read_notification("WATCHDOG=1", true).forwarded, "WATCHDOG=1");
  EXPECT_EQ(read_notification("MAINPID=3\nREADY=1\nFDSTORE=1\nFDNAME=uroce-estate", false).forwarded, "READY=1");
  for (const char* text : {"BARRIER=1", "MAINPID=3", "FDSTOREREMOVE=1", "ERRNO=2", "", "\n\n", "=", "READY"}) {
    EXPECT_EQ(read_notification(text, false).forwarded, "") << text;
  }
}

TEST(Notification, ARunThatLeavesAnEstateIsNoEndOfTheService) {
  EXPECT_EQ(read_notification("STOPPING=1", false).forwarded, "STOPPING=1");
  EXPECT_EQ(read_notification("STOPPING=1\nSTATUS=x", true).forwarded, "STATUS=x");
}

}  // namespace
}  // namespace uroce::daemon

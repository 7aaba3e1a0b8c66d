// Options by kind: what they take, what they refuse in which words, and what --help says of them.
#include "arguments/program.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <utility>

namespace uroce::arguments {
namespace {

enum class Color : uint8_t { unset, red, green, blue };
constexpr std::array<std::pair<std::string_view, Color>, 3> kColors{
    {{"red", Color::red}, {"green", Color::green}, {"blue", Color::blue}}};

struct Painter : Program {
  Painter() : Program("painter", "painter: paints.", "painter", "; see painter --help") {
    flag("-q,--quiet", quiet, "Say nothing");
    text("--name", name, "Name");
    text("--title", title, "Title");
    texts("--layer", layers, "Layer; may be repeated");
    text_or_none("--check", checked, "Check").shown_as("[FILE]");
    number("-n,--count", count, 1, 255, "Count");
    number("--seed", seed, 0, std::numeric_limits<uint64_t>::max(), "Seed");
    number("--level", level, 0, 7, "Level");
    real("--share", share, 0.5, 10, "Share");
    size("--bytes", bytes, 512, 1u << 30, "Size");
    choice("-c,--color", color, kColors, "Color", "the paper's");
    choice("--border", border, kColors, "Color of the border");
    choice("--only", only, std::array{kColors[1]}, "Color of the rest");
    texts("file", files, "Files");
  }

  /// The refusal; empty where the words are taken.
  std::string fault(std::vector<std::string> words) {
    const auto exit = parse(std::move(words));
    if (exit) {
      EXPECT_EQ(exit->code, 2);
      EXPECT_TRUE(exit->text.starts_with("painter: ") && exit->text.ends_with("; see painter --help")) << exit->text;
    }
    return exit ? exit->text.substr(9, exit->text.size() - 9 - 20) : "";
  }

  bool quiet = false;
  std::string name, checked;
  std::optional<std::string> title;
  std::vector<std::string> layers, files;
  uint8_t count = 1;
  uint64_t seed = 0, bytes = 0;
  std::optional<int> level;
  double share = 1;
  Color color = Color::unset, border = Color::green, only = Color::unset;
};

TEST(Arguments, AreTakenByKind) {
  Painter it;
  EXPECT_EQ(it.fault({"-q",      "--name",   "n",       "--title=t", "--layer", "a",      "x",
                      "--layer", "b",        "--check", "-n",        "0x10",    "--seed", "18446744073709551615",
                      "--level", "0",        "--share", "1e0",       "--bytes", "64K",    "-c",
                      "blue",    "--border", "red",     "y"}),
            "");
  EXPECT_TRUE(it.quiet);
  EXPECT_EQ(it.name, "n");
  EXPECT_EQ(it.title, "t");
  EXPECT_EQ(it.layers, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(it.files, (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(it.count, 16);
  EXPECT_EQ(it.seed, std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(it.level, 0);
  EXPECT_EQ(it.bytes, 65536u);
  EXPECT_EQ(it.color, Color::blue);
  EXPECT_EQ(it.border, Color::red);
}

TEST(Arguments, ThatAreNotGivenKeepTheirValues) {
  Painter it;
  EXPECT_EQ(it.fault({}), "");
  EXPECT_EQ(it.count, 1);
  EXPECT_EQ(it.border, Color::green);
  EXPECT_FALSE(it.title);
  EXPECT_FALSE(it.level);
}

TEST(Choices, TakeWordsAlone) {
  for (const char* number : {"0", "1", "2", "\x01", "", "RED", "red,green"}) {
    EXPECT_EQ(Painter().fault({"--border", number}),
              "--border: '" + std::string(number) + "' is none of red, green, blue");
  }
}

TEST(Choices, AreWordsInTheHelp) {
  const std::string help = Painter().help();
  EXPECT_NE(help.find("-c,--color WORD               Color: red, green or blue (default: the paper's)\n"),
            std::string::npos)
      << help;
  EXPECT_NE(help.find("Color of the border: red, green (default) or blue\n"), std::string::npos) << help;
  EXPECT_NE(help.find("Color of the rest: only green\n"), std::string::npos) << help;
}

TEST(Help, ShowsWhatIsTakenInPrintableCharacters) {
  const std::string help = Painter().help();
  for (const char letter : help) EXPECT_TRUE(letter == '\n' || (letter >= ' ' && letter <= '~')) << int{letter};
  for (const char* part : {"--name TEXT ", "--layer TEXT ... ", "--check [FILE] ", "-n,--count 1..255 ",
                           "--share 0.5..10 ", "--bytes 512..1073741824 ", "file TEXT ... "}) {
    EXPECT_NE(help.find(part), std::string::npos) << part << help;
  }
  EXPECT_EQ(Painter().parse({"--help"})->text, help);
}

TEST(Refusals, NameOptionValueAndLimit) {
  for (const char* value : {"0", "256", "-1", "1.5", "x", "99999999999999999999", "0x", "1 "}) {
    EXPECT_EQ(Painter().fault({"--count", value}),
              "--count: '" + std::string(value) + "' is no whole number from 1 to 255");
  }
  for (const char* value : {"0.4", "11", "nan", "inf", "1x", ""}) {
    EXPECT_EQ(Painter().fault({"--share", value}), "--share: '" + std::string(value) + "' is no number from 0.5 to 10");
  }
  for (const char* value : {"511", "2G", "1X", "lots", "-1K", ""}) {
    EXPECT_EQ(Painter().fault({"--bytes", value}), "--bytes: '" + std::string(value) +
                                                       "' is no size from 512 to 1073741824 bytes; write one like 4096 "
                                                       "or 64K");
  }
  EXPECT_NE(Painter().fault({"--seed", "-5"}), "");
  EXPECT_EQ(Painter().fault({"--name"}), "--name needs a value behind it");
  EXPECT_EQ(Painter().fault({"--name", "a", "--name", "b"}), "--name is there twice; leave one out");
  EXPECT_EQ(Painter().fault({"--colour", "red"}), "unknown option --colour behind \"painter\"");
}

TEST(Exclusion, IsInTheHelpAndInTheRefusal) {
  Painter it;
  bool wet = false, dry = false;
  it.flag("--wet", wet, "Wet").excludes(it.flag("--dry", dry, "Dry"));
  EXPECT_NE(it.help().find("Wet (not with --dry)"), std::string::npos);
  EXPECT_EQ(it.fault({"--wet", "--dry"}), "--wet excludes --dry; leave one of them out");
}

/// Commands, of which one has commands below it.
struct Tree : Program {
  Tree() : Program("tree", "tree: grows.", "tree", "; see tree --help") {
    command("grow", "Grow", [this] { chosen += "grow "; });
    Command show = command("show", "Show");
    for (const char* name : {"leaf", "root"}) show.command(name, name, [this, name] { chosen += name; });
  }
  std::string fault(std::vector<std::string> words) {
    const auto exit = parse(std::move(words));
    return exit ? exit->text : "";
  }
  std::string chosen;
};

TEST(Commands, AreChosen) {
  Tree tree;
  EXPECT_EQ(tree.fault({"show", "root"}), "");
  EXPECT_EQ(tree.chosen, "root");
  EXPECT_TRUE(tree.has_command());
  Tree none;
  EXPECT_EQ(none.fault({}), "");
  EXPECT_FALSE(none.has_command());
}

TEST(Commands, ThatAreUnknownAreNamedWithThoseThatThereAre) {
  EXPECT_EQ(Tree().fault({"bloom"}), "tree: unknown word 'bloom' behind \"tree\"; write grow or show; see tree --help");
  EXPECT_EQ(Tree().fault({"show", "bud"}),
            "tree: unknown word 'bud' behind \"tree show\"; write leaf or root; see tree --help");
  EXPECT_EQ(Tree().fault({"show", "bud", "leaf"}),
            "tree: unknown word 'bud' behind \"tree show\"; write leaf or root; see tree --help");
  EXPECT_EQ(Tree().fault({"show"}),
            "tree: a word is missing behind \"tree show\"; write leaf or root; see tree --help");
  EXPECT_EQ(Tree().fault({"show", "--size"}), "tree: unknown option --size behind \"tree show\"; see tree --help");
  EXPECT_EQ(Tree().fault({"grow", "show"}),
            "tree: unexpected word 'show' behind \"tree grow\"; leave it out; see tree --help");
}

TEST(Commands, HaveHelpOfTheirOwn) {
  EXPECT_NE(Tree().fault({"show", "--help"}).find("Usage: tree show [OPTIONS] SUBCOMMAND\n"), std::string::npos)
      << Tree().fault({"show", "--help"});
}

}  // namespace
}  // namespace uroce::arguments

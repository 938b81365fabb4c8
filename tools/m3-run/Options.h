// What the commands of m3-run share: how a plan and weights are given and opened.
#pragma once

#include "runtime/base/Progress.h"
#include "runtime/schedule/Session.h"

#include <functional>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>

namespace m3c {

struct RunOptions {
  std::string plan;
  std::string weights; ///< checkpoint folder or synthetic:SEED
  unsigned threads = 0;
  std::string device;         ///< as in hal::DeviceOptions
  bool checkLaunches = false; ///< likewise
  std::string emulate;        ///< likewise
  uint64_t emulationSeed = 1; ///< likewise
  bool noGraphs = false;      ///< each launch is started by itself
  uint64_t pages = 0;         ///< 0: as many as the run needs
  uint32_t chunk = 512;
  bool stats = false; ///< launches per kernel and chip at the end
  std::string progress = "auto";
};

/// Adds the options to a command's parser.
void addRunOptions(CLI::App &app, RunOptions &options);

/// Refuses both together.
void checkDeviceChoice(const std::string &device, const std::string &emulate);

/// Opens the plan and loads its code.
std::unique_ptr<Engine> openEngine(const RunOptions &options);

/// At the end of a run, on standard error: with `stats` the launches of each kernel and chip, and
/// what an emulated device has done. Throws Error where the target has kernels of its own for a
/// family and none of them ran: such a run shows nothing of them.
void reportRun(const Engine &engine, const Session &session, bool stats);

/// Foresees the memory, then reads the weights with progress on standard error.
void loadWeights(Engine &engine, const RunOptions &options, const SessionOptions &session);

/// What the options say about a session; graphs that take long to record are mentioned.
void applyTo(SessionOptions &session, const RunOptions &options);
void mentionGraphs(Session &session);

/// True for "synthetic:SEED".
bool isSynthetic(const std::string &weights);

/// Adds a command's options to its parser and returns what runs it.
std::function<int()> setUpGenerate(CLI::App &app);
std::function<int()> setUpScore(CLI::App &app);
std::function<int()> setUpReplay(CLI::App &app);

} // namespace m3c

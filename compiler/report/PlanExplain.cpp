// `m3c explain`: why a plan is as it is. `m3c diff`: what differs between two.
#include "compiler/report/PlanReport.h"

#include "runtime/base/Error.h"

#include <algorithm>
#include <regex>
#include <set>

#include <fmt/format.h>

namespace m3c {

using nlohmann::ordered_json;

namespace {

std::string str(const ordered_json &value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

// The chip whose code of a kernel a target runs: its own, or the one that stands in.
std::string codeChip(const ordered_json &tables, const std::string &kernel,
                     const std::string &chip) {
  for (const ordered_json &entry : tables["kernels"])
    if (entry["name"] == kernel)
      for (const ordered_json &object : entry["objects"])
        if (object["chip"] == chip)
          return chip;
  for (const ordered_json &target : tables["targets"])
    if (target["chip"] == chip)
      return target["fallback_chip"];
  return chip;
}

// Launches of one kernel: how many in which bucket, and the labels of the first bucket.
ordered_json usesOf(const ordered_json &tables, const std::string &kernel) {
  ordered_json uses = ordered_json::array();
  for (const ordered_json &bucket : tables["buckets"]) {
    std::vector<std::string> labels;
    for (const ordered_json &launch : bucket["launches"])
      if (launch["kernel"] == kernel)
        labels.push_back(launch["label"]);
    if (!labels.empty())
      uses.push_back({{"chip", bucket["chip"]},
                      {"rows", bucket["rows"]},
                      {"code", codeChip(tables, kernel, bucket["chip"])},
                      {"launches", labels.size()},
                      {"labels", labels}});
  }
  return uses;
}

[[noreturn]] void failUnknown(const ordered_json &tables, const std::string &kernel) {
  std::vector<std::string> near;
  for (const ordered_json &entry : tables["kernels"]) {
    std::string name = entry["name"];
    if (name.find(kernel) != std::string::npos || entry["family"] == kernel || near.size() < 3)
      near.push_back(name);
  }
  throw Error(fmt::format("the plan has no kernel {}", kernel), "--kernel", "",
              fmt::format("it has for instance {}", fmt::join(near, ", ")), ExitCode::Usage);
}

void compare(const std::string &path, const ordered_json &left, const ordered_json &right,
             ordered_json &out);

// Lists of things with names are compared by name, others by position.
std::string nameOf(const ordered_json &entry) {
  if (!entry.is_object())
    return "";
  for (const char *key : {"name", "symbol"})
    if (entry.contains(key))
      return str(entry[key]) + (entry.contains("chip") ? " " + str(entry["chip"]) : "");
  if (entry.contains("chip"))
    return str(entry["chip"]) + (entry.contains("rows") ? " " + str(entry["rows"]) + " rows" : "");
  return "";
}

void compareLists(const std::string &path, const ordered_json &left, const ordered_json &right,
                  ordered_json &out) {
  bool named = !left.empty() && !nameOf(left[0]).empty();
  std::map<std::string, const ordered_json *> byName;
  if (named)
    for (const ordered_json &entry : right)
      byName[nameOf(entry)] = &entry;
  std::set<std::string> seen;
  for (size_t i = 0; i < left.size(); ++i) {
    std::string name = named ? nameOf(left[i]) : std::to_string(i);
    const ordered_json *other = named ? byName[name] : i < right.size() ? &right[i] : nullptr;
    seen.insert(name);
    compare(fmt::format("{}[{}]", path, name), left[i], other ? *other : ordered_json(), out);
  }
  for (size_t i = 0; i < right.size(); ++i) {
    std::string name = named ? nameOf(right[i]) : std::to_string(i);
    if (!seen.contains(name))
      compare(fmt::format("{}[{}]", path, name), ordered_json(), right[i], out);
  }
}

void compare(const std::string &path, const ordered_json &left, const ordered_json &right,
             ordered_json &out) {
  if (left == right)
    return;
  if (left.is_array() && right.is_array())
    return compareLists(path, left, right, out);
  if (!left.is_object() || !right.is_object()) {
    out.push_back({{"path", path}, {"left", left}, {"right", right}});
    return;
  }
  for (const auto &[key, value] : left.items())
    compare(path.empty() ? key : path + "." + key, value,
            right.contains(key) ? right[key] : ordered_json(), out);
  for (const auto &[key, value] : right.items())
    if (!left.contains(key))
      compare(path.empty() ? key : path + "." + key, ordered_json(), value, out);
}

} // namespace

ordered_json explainJson(const plan::PlanFile &file, const std::string &kernel) {
  ordered_json manifest = manifestOf(file), tables = tablesJson(file);
  ordered_json out = {{"plan", file.name()},
                      {"decisions", manifest.value("decisions", ordered_json::array())},
                      {"kernels", ordered_json::array()}};
  for (const ordered_json &entry : tables["kernels"]) {
    if (!kernel.empty() && entry["name"] != kernel && entry["family"] != kernel)
      continue;
    ordered_json one = {{"name", entry["name"]},
                        {"family", entry["family"]},
                        {"schedule", entry["schedule"]},
                        {"objects", entry["objects"]},
                        {"uses", usesOf(tables, entry["name"])}};
    out["kernels"].push_back(std::move(one));
  }
  if (!kernel.empty() && out["kernels"].empty())
    failUnknown(tables, kernel);
  return out;
}

// Buckets that launch a kernel for the same labels, on one line.
static std::string usesText(const ordered_json &uses) {
  std::vector<std::pair<std::string, std::vector<std::string>>> lines;
  for (const ordered_json &use : uses) {
    std::string first = str(use["labels"][0]), last = str(use["labels"].back());
    std::string what =
        fmt::format("{}{}: {} launches, {}{}", str(use["chip"]),
                    use["code"] == use["chip"] ? "" : ", with code for " + str(use["code"]),
                    str(use["launches"]), first, first == last ? "" : " … " + last);
    if (lines.empty() || lines.back().first != what)
      lines.push_back({what, {}});
    lines.back().second.push_back(str(use["rows"]));
  }
  std::string out;
  for (const auto &[what, rows] : lines)
    out += fmt::format("    {}, in the buckets of {} rows\n", what, fmt::join(rows, ", "));
  return out;
}

// How attention is shared out over work items, chip by chip: "CHIP: choice = number, …; CHIP: …".
static std::string sharesText(const std::string &schedule) {
  static const std::regex perChip("([^:;]+): ([^;]*)"), parts("\\bparts = (\\d+)"),
      together("\\bshared_rows = (\\d+)");
  std::string out;
  for (std::sregex_iterator at(schedule.begin(), schedule.end(), perChip), end; at != end; ++at) {
    std::string choices = (*at)[2];
    std::smatch count, rows;
    if (!std::regex_search(choices, count, parts))
      continue;
    bool flat = choices.find("flat = 1") != std::string::npos;
    std::string ofRows =
        std::regex_search(choices, rows, together)
            ? fmt::format("the pages that {} rows chose, each once, of", rows[1].str())
            : "the pages of each row of";
    out += fmt::format("    shared out on{}{}: {}\n", (*at)[1].str().starts_with(' ') ? "" : " ",
                       (*at)[1].str(),
                       flat ? fmt::format("the pages of all rows of a KV head, end to end, in {} "
                                          "equal stretches",
                                          count[1].str())
                            : fmt::format("{} a KV head in {} part{}", ofRows, count[1].str(),
                                          count[1] == "1" ? "" : "s"));
  }
  return out;
}

std::string explainText(const ordered_json &explained) {
  std::string out = "decisions\n";
  for (const ordered_json &decision : explained["decisions"])
    out +=
        fmt::format("  {:<28} {}\n{:31}because {}\n", str(decision.value("what", ordered_json())),
                    str(decision.value("choice", ordered_json())), "",
                    str(decision.value("why", ordered_json())));
  if (explained.contains("kernels") && !explained["kernels"].empty())
    out += "kernels\n";
  for (const ordered_json &kernel : explained.value("kernels", ordered_json::array())) {
    out += fmt::format("  {} (family {})\n    schedule {}\n", str(kernel["name"]),
                       str(kernel["family"]), str(kernel["schedule"]));
    if (kernel["family"] == "attention")
      out += sharesText(str(kernel["schedule"]));
    for (const ordered_json &object : kernel["objects"])
      out += fmt::format("    code for {}: {}\n", str(object["chip"]), codeText(object));
    out += usesText(kernel["uses"]);
  }
  return out;
}

ordered_json diffPlans(const plan::PlanFile &left, const plan::PlanFile &right) {
  ordered_json out = ordered_json::array();
  compare("manifest", manifestOf(left), manifestOf(right), out);
  compare("", tablesJson(left), tablesJson(right), out);
  return out;
}

} // namespace m3c

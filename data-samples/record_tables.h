#pragma once

#include <array>
#include <cstddef>

/// Vocabulary of the generated maintenance records.
///
/// Symptoms are the eight corners of a cube and parts its twelve edges: every symptom belongs to
/// three parts, every part to two symptoms, so a part can only be told from both symptoms and the
/// equipment.
namespace records {

struct Symptom {
  std::array<const char*, 4> clauses;  ///< "the doors open again before they are closed"
  const char* noun;                    ///< for "there was no ..."
};

struct Part {
  const char* name;
  std::size_t first;  ///< Symptoms; their numbers differ in exactly one bit.
  std::size_t second;
};

struct Equipment {
  const char* name;
  const char* prefix;
  std::array<const char*, 4> places;
  std::array<const char*, 2> readings;  ///< Units after a number.
  std::array<Symptom, 8> symptoms;
  std::array<Part, 12> parts;
};

inline constexpr Equipment kLift = {
    "Lift",
    "L",
    {"north hall", "car park", "ward block", "east tower"},
    {"kg load", "C motor"},
    {{
        {{"the doors open again before they are closed", "the doors do not stay shut",
          "the door leaves come back at the last moment",
          "passengers have to wait because the doors reopen"},
         "trouble with the doors"},
        {{"there is a scraping noise", "something scrapes along metal",
          "a rough rubbing sound is heard", "a dragging sound can be heard on every run"},
         "scraping noise"},
        {{"the car stops below the floor", "the car comes to rest a hand above the landing",
          "there is a step of several centimetres at the landing",
          "the car is not level with the floor"},
         "error of level"},
        {{"the car starts with a jerk", "there is a hard pull at every start",
          "passengers feel a kick when it moves off", "it sets off with a sudden tug"},
         "jerk at the start"},
        {{"the motor runs hot", "the motor is too warm to touch", "there is a smell of hot varnish",
          "the temperature of the motor keeps rising"},
         "heat at the motor"},
        {{"there is a loud squeal", "a high squeaking tone is heard",
          "it screeches so that people complain", "a shrill sound comes with every stop"},
         "squealing"},
        {{"the display shows the wrong floor", "the floor number jumps",
          "the indicator is one floor behind", "the panel shows a floor that was never reached"},
         "wrong display"},
        {{"the car shakes at full speed", "strong vibration is felt on long runs",
          "the cabin trembles between floors", "the ride is unsteady once it is fast"},
         "shaking"},
    }},
    {{
        {"door belt", 0, 1},
        {"lock contact", 0, 2},
        {"door motor", 0, 4},
        {"guide shoe", 1, 3},
        {"sill roller", 1, 5},
        {"brake coil", 2, 3},
        {"floor sensor", 2, 6},
        {"traction rope", 3, 7},
        {"brake lining", 4, 5},
        {"control board", 4, 6},
        {"sheave bearing", 5, 7},
        {"travel cable", 6, 7},
    }}};

inline constexpr Equipment kPump = {
    "Pump",
    "P",
    {"boiler room", "basin four", "filter house", "cold store"},
    {"bar outlet", "C motor"},
    {{
        {{"the flow is low", "less water arrives than usual", "the tank fills only slowly",
          "the delivery has dropped by a third"},
         "loss of flow"},
        {{"there is a rattling noise", "something rattles inside the casing",
          "it sounds like gravel in a tin", "a loose clatter can be heard on every run"},
         "rattling"},
        {{"water stands on the floor", "there is a leak", "it drips from the casing",
          "a puddle forms under the base"},
         "leak"},
        {{"the shaft shakes", "strong vibration is felt at the base", "the whole set trembles",
          "the running is unsteady once it is fast"},
         "shaking"},
        {{"the breaker trips", "the supply cuts out after minutes",
          "the current is far above the plate value", "it draws so much that the fuse goes"},
         "trip of the breaker"},
        {{"the bearing housing is hot", "the motor is too warm to touch",
          "there is a smell of hot grease", "the temperature at the drive end keeps rising"},
         "heat at the bearing"},
        {{"the pressure swings", "the gauge needle will not stand still",
          "the pressure goes up and down", "the outlet pressure hunts by half a bar"},
         "change of pressure"},
        {{"there is a loud whine", "a high singing tone is heard",
          "it howls so that people complain", "a shrill sound comes with every stop"},
         "whining"},
    }},
    {{
        {"impeller", 0, 1},
        {"suction hose", 0, 2},
        {"inlet strainer", 0, 4},
        {"coupling", 1, 3},
        {"ball bearing", 1, 5},
        {"shaft seal", 2, 3},
        {"outlet flange", 2, 6},
        {"base frame", 3, 7},
        {"motor fan", 4, 5},
        {"frequency drive", 4, 6},
        {"oil ring", 5, 7},
        {"check valve", 6, 7},
    }}};

inline constexpr Equipment kConveyor = {
    "Conveyor",
    "C",
    {"packing line", "sorting hall", "quarry ramp", "cold store"},
    {"t per hour", "C motor"},
    {{
        {{"the belt runs off to one side", "the belt wanders",
          "the edge of the belt rubs on the frame", "the belt does not stay in the middle"},
         "wandering of the belt"},
        {{"there is a grinding noise", "something grinds inside", "a rough rubbing sound is heard",
          "a dragging sound can be heard on every run"},
         "grinding"},
        {{"material falls beside the line", "there is spillage", "boxes drop off at the transfer",
          "a heap forms under the return side"},
         "spillage"},
        {{"the belt slips under load", "the drum turns and the belt stands",
          "it does not pull when it is full", "the belt lags behind the drum"},
         "slip"},
        {{"the motor runs hot", "the motor is too warm to touch", "there is a smell of hot varnish",
          "the temperature of the motor keeps rising"},
         "heat at the motor"},
        {{"it knocks on every turn", "there is a regular bang",
          "a dull blow is heard again and again", "a thump comes with each round"},
         "knocking"},
        {{"the line stops without warning", "it halts for no visible reason",
          "the drive drops out in the shift", "it switches itself off now and then"},
         "stop of the line"},
        {{"the speed is uneven", "the belt moves in jumps", "it runs fast and slow in turn",
          "the pace changes although the setting is fixed"},
         "change of speed"},
    }},
    {{
        {"idler roller", 0, 1},
        {"side guide", 0, 2},
        {"tail pulley", 0, 4},
        {"drum lagging", 1, 3},
        {"gearbox", 1, 5},
        {"belt scraper", 2, 3},
        {"chute sensor", 2, 6},
        {"take-up unit", 3, 7},
        {"drive chain", 4, 5},
        {"thermal relay", 4, 6},
        {"belt joint", 5, 7},
        {"speed encoder", 6, 7},
    }}};

struct Finding {
  const char* action;
  std::array<const char*, 4> clauses;
};

/// What the fitter saw, and what is then done the first time. The second time the part is replaced.
inline constexpr std::array<Finding, 5> kFindings = {{
    {"replace",
     {"it was worn through", "there was a crack in it", "it was beyond its wear mark",
      "a piece of it had broken off"}},
    {"clean",
     {"it was full of dirt", "dust had packed around it", "a crust had formed on it",
      "it was choked with fluff"}},
    {"tighten",
     {"it had come loose", "its screws could be turned by hand", "it had play in its seat",
      "two bolts were slack"}},
    {"adjust",
     {"it was out of line", "it sat two millimetres off", "its setting had drifted",
      "it was not square to the axis"}},
    {"lubricate",
     {"it was running dry", "no grease was left on it", "its oil was used up",
      "the old film of oil was gone"}},
}};

inline constexpr std::array<const char*, 4> kRepeated = {
    "The same was put right only a month ago.", "This is the second time this season.",
    "The last repair of this did not hold.", "It had been seen to a few weeks before."};

inline constexpr std::array<const char*, 4> kFirstTime = {
    "Nothing like it is on file.", "The last visit was without remarks.",
    "It is the first time for this unit.", "The log has no earlier case."};

inline constexpr std::array<const char*, 4> kReports = {
    "The operator reports that ", "According to the shift, ", "Since the weekend ",
    "It was noticed that "};

inline constexpr std::array<const char*, 4> kJoins = {", and ", "; in addition ", ", while ",
                                                      ". Besides, "};

inline constexpr std::array<const char*, 4> kFinders = {
    "On opening, ", "The fitter found that ", "A closer look showed that ", "With the cover off, "};

inline constexpr std::array<const char*, 4> kRuledOut = {
    "There was no ", "Nobody mentioned any ", "A test run gave no ", "We could not find any "};

inline constexpr std::array<const char*, 3> kInOrder = {
    " was checked and is in order.", " is new and was left alone.", " shows no damage."};

inline constexpr std::array<const char*, 6> kRemarks = {
    "The area was closed off for the work.", "The key was handed over by the porter.",
    "Access was delayed by a delivery.",     "The site manager was informed.",
    "The work was done after hours.",        "The unit had been cleaned the day before."};

inline constexpr std::array<const char*, 12> kMonths = {
    "January", "February", "March",     "April",   "May",      "June",
    "July",    "August",   "September", "October", "November", "December"};

}  // namespace records

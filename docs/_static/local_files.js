// A page that is opened from disk may not fetch the list of versions: leave it out,
// instead of an error in the console.
if (window.location.protocol === "file:") {
  delete DOCUMENTATION_OPTIONS.theme_switcher_json_url;
}

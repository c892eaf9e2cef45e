# @PROGRAM@ @VERSION@, made by scripts/packages.sh.
class McpWorkbench < Formula
  desc "MCP server that stands between an agent and many others"
  homepage "@REPOSITORY@"
  license any_of: ["MIT", "Apache-2.0"]

@PLATFORMS@

  def install
    bin.install "mcp-workbench"
    bash_completion.install "completions/mcp-workbench.bash" => "mcp-workbench"
    fish_completion.install "completions/mcp-workbench.fish"
    zsh_completion.install "completions/_mcp-workbench"
    man1.install Dir["man/*.1"]
  end

  service do
    run [opt_bin/"mcp-workbench", "serve", "--http", "127.0.0.1:8000"]
    keep_alive crashed: true
    log_path var/"log/mcp-workbench.log"
    error_log_path var/"log/mcp-workbench.log"
  end

  test do
    assert_equal "mcp-workbench #{version}", shell_output("#{bin}/mcp-workbench --version").strip
    assert_match "open_toolbox", shell_output("#{bin}/mcp-workbench demo")
  end
end
